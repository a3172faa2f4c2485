"""The records of shard_bench read by Python: slices of the mapped shard, and the small files one by one.

A slice of a mapped file is a copy in Python; ours is a view, of which every cache line is read.
"""

import hashlib

import twin

data = twin.data_folder()
shard, offsets = twin.shard_records(data / "shards" / "openclipart-png-train.shard")
names = twin.shard_names(shard)
order = [i * 7919 % len(offsets) for i in range(700)]  # shard_bench reads the same ones
paths = [str(data / "openclipart" / names[i]) for i in order]


def from_shard():
    for i in order:
        at, size = offsets[i]
        shard[at:at + size]


def from_files():
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            file.read()


records = [shard[offsets[i][0]:sum(offsets[i])] for i in order]
answer = hashlib.sha256("".join(hashlib.sha256(record).hexdigest() for record in records).encode()).hexdigest()
size = sum(map(len, records))
twin.run(answer, {"read/shard": (from_shard, size), "read/files": (from_files, size)})
