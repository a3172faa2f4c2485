"""Holds this lesson's files against Hugging Face's GPT-2, both ways. A test (gpt2_transformers) runs it where the library
is installed, and passes over it where it is not, as in CI. By hand:
pip install --target /tmp/hf transformers==5.24.0 safetensors==0.8.0, then
PYTHONPATH=/tmp/hf .venv/bin/python lessons/91_gpt2/check_transformers.py [FILE]

FILE is one that the program wrote. Default: the newest in ~/.cache/tenfold/gpt2, trained.safetensors after
./tenfold run 91 --case quality, else start_*.safetensors, with which case `from a file` begins."""

import pathlib
import sys
import tempfile

import torch

try:
    from safetensors.torch import load_file
    from transformers import GPT2Config, GPT2LMHeadModel
except ImportError as error:
    print(f"{error}; to fix: pip install transformers==5.24.0 safetensors==0.8.0")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench" / "peers"), str(ROOT / "lessons" / "91_gpt2")]
import python as lesson
import twin

left = twin.data_folder().parent / "gpt2"
left = sorted((file for name in ("start_*", "trained") for file in left.glob(f"{name}.safetensors")),
              key=lambda file: file.stat().st_mtime)
written = [*map(pathlib.Path, sys.argv[1:])] or left
if not written:
    print("no file of the program's; to fix: ./tenfold run 91 --case 'from a file'")
    sys.exit(77)
tensors = load_file(written[-1])
(vocabulary, width), length = tensors["wte.weight"].shape, len(tensors["wpe.weight"])
layers, heads = sum(name.endswith("ln_1.weight") for name in tensors), max(4, width // 64)
ids = torch.randint(vocabulary, (2, length), generator=torch.Generator().manual_seed(1))


def ours(path):
    model = lesson.Gpt2(layers, width, heads, length, vocabulary)
    lesson.load_gpt2(model, path)
    with torch.no_grad():
        return model(ids).view(*ids.shape, vocabulary)


def compare(what, model, path):
    with torch.no_grad():
        theirs = model.eval()(ids).logits
    apart = (ours(path) - theirs).abs().max().item()
    print(f"{what}: logits apart by at most {apart:.1e}, the largest is {theirs.abs().max().item():.2f}")
    return apart < 1e-4


config = GPT2Config(vocab_size=vocabulary, n_positions=length, n_embd=width, n_layer=layers, n_head=heads,
                    bos_token_id=0, eos_token_id=0)
reads = GPT2LMHeadModel(config)
missing, unexpected = reads.transformer.load_state_dict(tensors, strict=False)
right = not missing and not unexpected and compare("transformers reads the program's file", reads, written[-1])
with tempfile.TemporaryDirectory() as folder:
    writes = GPT2LMHeadModel(config)
    with torch.no_grad():
        for parameter in writes.parameters():
            parameter.normal_(0, 0.2)
    writes.save_pretrained(folder)
    right = compare("transformers' file is read", writes, pathlib.Path(folder) / "model.safetensors") and right
sys.exit(not right)
