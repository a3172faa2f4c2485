"""Pillow on the records of pictures_bench, on one thread: from the bytes of a file in memory to RGB in memory.

The work is the same as ours (rgb.py). No array is made of a picture: handing the pixels on (np.asarray and the like) would cost
Pillow one more copy.
"""

import hashlib
import io

import twin
from rgb import open_rgb


def files_of(form, stride):
    """Every stride-th record of a shard."""
    shard, records = twin.shard_records(twin.data_folder() / "shards" / f"openclipart-{form}-train.shard")
    return [shard[at:at + size] for at, size in records[::stride]]


def decode(file):
    return open_rgb(io.BytesIO(file))


cases, hashes = {}, ""
for name, files in (("decode/png", files_of("png", 16)), ("decode/jpeg256", files_of("jpeg256", 4))):
    pixels = 0
    for file in files:
        picture = decode(file)
        hashes += hashlib.sha256(picture.tobytes()).hexdigest()
        pixels += picture.width * picture.height
    cases[name] = (lambda files=files: [decode(file) and None for file in files], 3 * pixels)
twin.run(hashlib.sha256(hashes.encode()).hexdigest(), cases, libraries=("pillow",))
