"""The ids that tiktoken gives to texts, for tokenizer_test.

usage: tiktoken_ids.py GPT2_TIKTOKEN TEXTS IDS

TEXTS holds records of a 4-byte little-endian length and as many bytes; IDS gets, for each, a 4-byte count and as many
4-byte ids. The encoding is built from the vocabulary file: nothing is downloaded. Exit code 77: no tiktoken here.
"""

import array
import base64
import sys

try:
    import tiktoken
    from tiktoken_ext.openai_public import r50k_pat_str
except ImportError as error:
    print(error)
    sys.exit(77)

vocabulary, texts, ids = sys.argv[1:]
with open(vocabulary, "rb") as file:
    ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in file)}
encoding = tiktoken.Encoding("gpt2", pat_str=r50k_pat_str, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 50256})

with open(texts, "rb") as source, open(ids, "wb") as target:
    while head := source.read(4):
        text = source.read(int.from_bytes(head, "little")).decode("utf-8", errors="replace")
        found = array.array("i", encoding.encode_ordinary(text))
        if sys.byteorder == "big":
            found.byteswap()
        target.write(len(found).to_bytes(4, "little"))
        target.write(found.tobytes())
