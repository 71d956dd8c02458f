"""PyTorch: Hugging Face's GPT2LMHeadModel in fp32 on the processor; see peers.py for the tasks.

Variants: "" eager, with transformers' DynamicCache (keys and values are concatenated, a layer at a time)
and sdpa attention, the defaults; "compile" the decode step through torch.compile with a StaticCache of
1024 places, the prefill eager. The head computes the last row only (logits_to_keep=1). The forward
pass without a cache is the same call with use_cache=False.
"""
import inspect
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.abspath("build/peers/inductor"))

import torch
import transformers
from transformers import DynamicCache, GPT2LMHeadModel, StaticCache

import peers


class Torch(peers.Peer):
    def __init__(self, folder, threads, variant):
        transformers.utils.logging.disable_progress_bar()
        torch.set_num_threads(threads)
        self.mode = torch.inference_mode()  # lasts as long as this object
        self.mode.__enter__()
        self.model = GPT2LMHeadModel.from_pretrained(os.path.join(folder, "hf"), dtype=torch.float32).eval()
        self.fixed = variant == "compile"
        self.run = self.model.forward
        if self.fixed:
            self.run = torch.compile(self.model.forward, dynamic=False)
            self.forward = None  # no pass without a cache in this variant
        # The cache's argument was past_key_values before transformers 5.
        names = inspect.signature(GPT2LMHeadModel.forward).parameters
        self.name = "cache" if "cache" in names else "past_key_values"

    def versions(self):
        return [("torch", torch.__version__), ("transformers", transformers.__version__)]

    def choose(self, run, ids, **options):
        logits = run(torch.tensor([ids]), logits_to_keep=1, **options).logits
        return int(logits[0, -1].argmax())

    def prefill(self, ids):
        assert torch.is_inference_mode_enabled()
        config = self.model.config
        self.cache = StaticCache(config=config, max_cache_len=peers.POSITIONS) if self.fixed \
            else DynamicCache(config=config)
        self.count = len(ids)
        return self.choose(self.model.forward, ids, use_cache=True, **self.options(0, len(ids)))

    def options(self, first, count):
        options = {self.name: self.cache}
        if self.fixed:  # the place is a tensor, so that one compiled step serves all
            options["position_ids"] = torch.arange(first, first + count)[None]
        return options

    def step(self, token):
        self.count += 1
        return self.choose(self.run, [token], use_cache=True, **self.options(self.count - 1, 1))

    def forward(self, ids):
        return self.choose(self.model.forward, ids, use_cache=False)


if __name__ == "__main__":
    peers.main(Torch)
