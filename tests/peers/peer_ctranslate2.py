"""CTranslate2's Generator in float32 on the processor; see peers.py for the tasks.

It has a decoding loop of its own in C++ (generate_batch, greedy), which calls a function back for each
id. The time of a step is the time between two of these calls; that of the prefill is from the call of
generate_batch to the first of them. (Inside, the prompt but its last id goes through at once, then the
last id as a step.) The forward pass without a cache is forward_batch: it has no way to leave the
head's other rows out, so it computes the logits of all positions.
"""
import os
import time

import ctranslate2
import numpy

import peers


class CTranslate2(peers.Peer):
    def __init__(self, folder, threads, variant):
        self.generator = ctranslate2.Generator(os.path.join(folder, "ctranslate2"), device="cpu",
                                               compute_type="float32", inter_threads=1,
                                               intra_threads=threads)

    def versions(self):
        return [("ctranslate2", ctranslate2.__version__)]

    def decode(self, ids, steps):
        chosen, ms = [], []
        last = None

        def on_token(result):
            nonlocal last
            now = time.perf_counter()
            ms.append((now - last) * 1e3)
            chosen.append(result.token_id)
            last = time.perf_counter()
            return False

        tokens = [["t%d" % i for i in ids]]
        last = time.perf_counter()
        self.generator.generate_batch(tokens, beam_size=1, sampling_topk=1, max_length=steps + 1,
                                      min_length=steps + 1, include_prompt_in_result=False,
                                      callback=on_token)
        return chosen, ms

    def forward(self, ids):
        logits = self.generator.forward_batch([ids])
        return int(numpy.array(logits)[0, -1].argmax())


if __name__ == "__main__":
    peers.main(CTranslate2)
