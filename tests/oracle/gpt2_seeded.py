"""Reference logits: transformers' GPT-2 in fp32 on the CPU with seeded weights.

    python gpt2_seeded.py SHAPE [--seed N] [--steps N] > FILE.tsv

A prompt of 64 seeded ids, then greedy steps with the cache. Step 0 is the pass over the prompt, so
step s has 64 + s tokens in the cache. Rows, after `#` lines (the last one names the columns):

    prompt POSITION ...   a position of the pass over the prompt
    step   STEP     ...   the last position of a step; the next step is fed its token

each with the token of the highest logit, that logit's distance to the second, the highest logit,
the sum of the row (in double) and the logits of 16 ids spread over the vocabulary.
"""
import argparse
import platform

import numpy
import torch
import transformers

import seeded

SHAPES = {  # layers, heads, width, vocab, positions
    "gpt2-small": (12, 12, 768, 50257, 1024),
    "gpt2-medium": (24, 16, 1024, 50257, 1024),
    "small4": (4, 4, 128, 512, 1024),
}
PROMPT = 64
POSITIONS = (0, 1, 2, 15, 31, 47, 62, 63)


def build(shape, seed):
    layers, heads, width, vocab, positions = shape
    config = transformers.GPT2Config(
        n_layer=layers, n_head=heads, n_embd=width, vocab_size=vocab, n_positions=positions,
        bos_token_id=None, eos_token_id=None, attn_implementation="eager")
    model = transformers.GPT2LMHeadModel(config).eval()
    assert model.config._attn_implementation == "eager"
    assert model.lm_head.weight is model.transformer.wte.weight
    for name, parameter in model.transformer.named_parameters():
        # Conv1D holds [in, out]; the definition is over [out, in].
        conv1d = parameter.dim() == 2 and name.startswith("h.")
        shape = tuple(parameter.shape)
        values = torch.from_numpy(seeded.weights(name, seed, shape[::-1] if conv1d else shape))
        parameter.copy_(values.T if conv1d else values)
    return model


def greedy(model, ids, steps):
    """The ids with those chosen and fed back, and the logits of every position."""
    out = model(torch.tensor([ids]), use_cache=True)
    rows = [out.logits[0]]
    for _ in range(steps):
        ids = ids + [int(rows[-1][-1].argmax())]
        # The cache is filled in place.
        out = model(torch.tensor([ids[-1:]]), cache=out.cache)
        rows.append(out.logits[0])
    return ids, torch.cat(rows)


def row(kind, number, logits, columns):
    top = logits.topk(2).values
    values = [top[0] - top[1], logits.max(), logits.double().sum(), *logits[columns]]
    print(kind, number, int(logits.argmax()), *("%.9g" % float(v) for v in values), sep="\t")


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    torch.set_num_threads(2)

    shape = SHAPES[options.shape]
    vocab = shape[3]
    model = build(shape, options.seed)
    ids, logits = greedy(model, seeded.prompt(PROMPT, options.seed, vocab).tolist(), options.steps)
    uncached = model(torch.tensor([ids])).logits[0]
    exact = model.double()(torch.tensor([ids])).logits[0]
    top = exact.topk(2).values
    gaps = (top[:, 0] - top[:, 1])[PROMPT - 1:]

    print("# %s: layers %d heads %d width %d vocab %d positions %d" % (options.shape, *shape))
    print("# seed %d, prompt %d seeded ids, %d steps" % (options.seed, PROMPT, options.steps))
    print("# torch %s, transformers %s, numpy %s, %s, eager attention, fp32, CPU" % (
        torch.__version__, transformers.__version__, numpy.__version__, platform.machine()))
    print("# over all positions and ids, on the same tokens:")
    print("# largest |logit| %.4g" % exact.abs().max())
    print("# largest |fp32 cached - fp64| %.3g" % (logits - exact).abs().max())
    print("# largest |fp32 uncached - fp64| %.3g" % (uncached - exact).abs().max())
    print("# largest |fp32 cached - fp32 uncached| %.3g" % (logits - uncached).abs().max())
    print("# smallest top-two gap of a step %.3g, %s tokens chosen differently in fp64" % (
        gaps.min(), int((exact.argmax(1) != logits.argmax(1))[PROMPT - 1:].sum())))
    columns = [i * (vocab - 1) // 15 for i in range(16)]
    print("# row", "number", "token", "gap", "max", "sum", *columns, sep="\t")
    for position in POSITIONS:
        row("prompt", position, logits[position], columns)
    for step in range(options.steps + 1):
        row("step", step, logits[PROMPT - 1 + step], columns)


main()
