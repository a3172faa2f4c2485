"""Pillow on the records of pictures_bench, on one thread: from the bytes of a file in memory to RGB in memory.

The work is the same as ours: palettes and gray are widened, and what is transparent is laid over white, for that is what
decode_picture gives. A picture without transparency takes Pillow's shortest way, load() and, unless it is RGB already,
convert("RGB"). No array is made of it: handing the pixels on (np.asarray and the like) would cost Pillow one more copy.
"""

import hashlib
import io
import sys

import twin

try:
    from PIL import Image
except ImportError as error:
    print(f"{error}; to fix: ./tenfold setup tests", file=sys.stderr)
    sys.exit(77)

def files_of(form, stride):
    """Every stride-th record of a shard."""
    shard, records = twin.shard_records(twin.data_folder() / "shards" / f"openclipart-{form}-train.shard")
    return [shard[at:at + size] for at, size in records[::stride]]


def decode(file):
    picture = Image.open(io.BytesIO(file))
    picture.load()
    if picture.has_transparency_data:
        if picture.mode != "RGBA":
            picture = picture.convert("RGBA")
        white = Image.new("RGB", picture.size, "white")
        white.paste(picture, mask=picture)
        return white
    return picture if picture.mode == "RGB" else picture.convert("RGB")


cases, hashes = {}, ""
for name, files in (("decode/png", files_of("png", 16)), ("decode/jpeg256", files_of("jpeg256", 4))):
    pixels = 0
    for file in files:
        picture = decode(file)
        hashes += hashlib.sha256(picture.tobytes()).hexdigest()
        pixels += picture.width * picture.height
    cases[name] = (lambda files=files: [decode(file) and None for file in files], 3 * pixels)
twin.run(hashlib.sha256(hashes.encode()).hexdigest(), cases)
