"""OpenVINO's runtime on the processor; see peers.py for the tasks.

The graph is the one export.py builds: stateful keys and values, scaled_dot_product_attention, the head for
the last row only. Arithmetic and cache are held to f32 (its own choice would be bf16 where the
processor has it, and an 8-bit cache). The logits are read in place and numpy takes their argmax. The
graph always has its cache: no pass without one.
"""
import os

import numpy
import openvino

import peers


class OpenVINO(peers.Peer):
    def __init__(self, folder, threads, variant):
        core = openvino.Core()
        compiled = core.compile_model(os.path.join(folder, "openvino", "model.xml"), "CPU", {
            "PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1,
            "INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"})
        self.request = compiled.create_infer_request()
        self.beams = numpy.zeros(1, dtype=numpy.int32)

    def versions(self):
        return [("openvino", openvino.__version__.split("-")[0])]

    def feed(self, ids):
        first, self.count = self.count, self.count + len(ids)
        result = self.request.infer({
            "input_ids": numpy.array([ids], dtype=numpy.int64),
            "position_ids": numpy.arange(first, self.count, dtype=numpy.int64)[None],
            "beam_idx": self.beams}, share_inputs=True, share_outputs=True)
        return int(result[0].argmax())

    def prefill(self, ids):
        self.request.reset_state()
        self.count = 0
        return self.feed(ids)

    def step(self, token):
        return self.feed([token])


if __name__ == "__main__":
    peers.main(OpenVINO)
