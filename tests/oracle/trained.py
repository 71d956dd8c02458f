#!/usr/bin/env python3
"""Trains a small GPT-2 that says six digits backwards; writes what transformers computes with it.

    python trained.py OUT

OUT/config.json and OUT/model.safetensors are as transformers saves them; OUT/tensors.tsv has name,
count and CRC-32 of every tensor's bytes as memtrace gives them, OUT/activations.json the inner
tensors of a pass over three sequences (base64 of fp32), OUT/greedy.tsv all 729 prompts and what the
model says to them.
"""
import base64
import itertools
import json
import os
import sys
import zlib

import torch
import transformers

DIGITS, LENGTH = 3, 6
CONFIG = dict(n_layer=3, n_head=3, n_embd=24, vocab_size=DIGITS, n_positions=2 * LENGTH - 1,
              tie_word_embeddings=False, bos_token_id=None, eos_token_id=DIGITS - 1,
              resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, attn_implementation="eager")


def train():
    torch.manual_seed(11)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**CONFIG))
    prompts = torch.tensor(list(itertools.product(range(DIGITS), repeat=LENGTH)))
    whole = torch.cat([prompts, prompts.flip(1)], 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(20000):
        rows = whole[torch.randint(len(whole), (128,))]
        logits = model(rows[:, :-1]).logits[:, LENGTH - 1:]
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, LENGTH:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 99:
            with torch.no_grad():
                answers = model(whole[:, :-1]).logits[:, LENGTH - 1:].topk(2)
            gap = (answers.values[..., 0] - answers.values[..., 1]).min().item()
            exact = (answers.indices[..., 0] == whole[:, LENGTH:]).all().item()
            print(f"step {step + 1}: loss {loss.item():.4f}, exact {exact}, gap {gap:.2f}")
            if exact and gap > 4:
                return model.eval(), whole
    raise SystemExit("not learned")


def activations(model, ids):
    """The inputs and outputs of the modules, under short names."""
    kept = {}

    def keep(module, name, of_input=False):
        def hook(_, inputs, output):
            kept[name] = (inputs[0] if of_input else
                          output[0] if isinstance(output, tuple) else output)
        module.register_forward_hook(hook)

    body, first = model.transformer, model.transformer.h[0]
    for module, name in ((body.wte, "tok_emb"), (body.wpe, "pos_emb"), (first.ln_1, "ln1"),
                         (first.attn.c_attn, "qkv"), (first.attn.c_proj, "yProj"),
                         (first.ln_2, "ln2"), (first.mlp.c_fc, "fc"), (first.mlp.act, "gelu"),
                         (first.mlp, "mlp"), (first, "mlpResid"), (body.h[0], "block0"),
                         (body.h[1], "block1"), (body.h[2], "block2"), (body.ln_f, "ln_f"),
                         (model.lm_head, "lm_head")):
        keep(module, name)
    keep(first, "x", True)
    keep(first.attn.c_proj, "y", True)
    keep(first.ln_2, "attnResid", True)
    with torch.no_grad():
        out = model(ids, output_attentions=True, use_cache=False)
    heads = model.config.n_head
    for name, part in zip("qkv", kept["qkv"].chunk(3, -1)):
        kept[name] = part.unflatten(-1, (heads, -1)).transpose(1, 2)
    scores = kept["q"] @ kept["k"].transpose(-1, -2) / kept["q"].shape[-1] ** 0.5
    kept["att"] = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1) > 0, -torch.inf)
    kept["attSm"] = out.attentions[0]
    kept["probs"] = out.logits.softmax(-1)
    return {"idx": ids.float()} | kept


def main():
    out = sys.argv[1]
    os.makedirs(out, exist_ok=True)
    model, whole = train()
    model.save_pretrained(out)
    os.remove(f"{out}/generation_config.json")
    with open(f"{out}/tensors.tsv", "w") as f:
        f.write(f"# torch {torch.__version__}, transformers {transformers.__version__}\n")
        for name, t in model.named_parameters():
            stored = t.T if ".c_" in name and t.dim() == 2 else t  # in the engine: outputs x inputs
            data = stored.detach().contiguous().numpy().tobytes()
            f.write(f"{name}\t{t.numel()}\t{zlib.crc32(data)}\n")
    tensors = {name: {"shape": list(t.shape), "dtype": "float32",
                      "data": base64.b64encode(t.contiguous().numpy().tobytes()).decode()}
               for name, t in activations(model, whole[[5, 333, 700], :-1]).items()}
    with open(f"{out}/activations.json", "w") as f:
        json.dump(tensors, f, indent=0)
        f.write("\n")
    prompts = whole[:, :LENGTH]
    answers = model.generate(prompts, attention_mask=torch.ones_like(prompts), do_sample=False,
                             max_new_tokens=LENGTH, eos_token_id=None, pad_token_id=0)
    with open(f"{out}/greedy.tsv", "w") as f:
        f.write("prompt\tanswer\n")
        for row in answers.tolist():
            digits = "".join(map(str, row))
            f.write(f"{digits[:LENGTH]}\t{digits[LENGTH:]}\n")


main()
