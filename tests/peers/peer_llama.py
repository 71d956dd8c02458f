"""llama.cpp through llama-cpp-python's C functions; see peers.py for the tasks.

F32 weights from a GGUF file, mapped into memory as llama.cpp does. Variants: "" the default cache, f16;
"f32" keys and values in f32, as all other programs hold them. Batches of 512 at most (its default), one
sequence, 1024 places. Each pass goes through llama_decode; the logits of the last row are read in
place and numpy takes their argmax. It has no pass without a cache.
"""
import ctypes
import os

import llama_cpp
import numpy

import peers

GGML_TYPE_F32 = 0


class Llama(peers.Peer):
    def __init__(self, folder, threads, variant):
        # Keep the function: the library calls it later.
        self.quiet = llama_cpp.llama_log_callback(lambda level, text, data: None)
        llama_cpp.llama_log_set(self.quiet, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        self.model = llama_cpp.llama_model_load_from_file(
            os.path.join(folder, "gpt2-f32.gguf").encode(), llama_cpp.llama_model_default_params())
        options = llama_cpp.llama_context_default_params()
        options.n_ctx = peers.POSITIONS
        options.n_batch = peers.POSITIONS
        options.n_threads = options.n_threads_batch = threads
        if variant == "f32":
            options.type_k = options.type_v = GGML_TYPE_F32
        self.context = llama_cpp.llama_init_from_model(self.model, options)
        if not self.context:
            raise SystemExit("llama.cpp made no context")

    def versions(self):
        return [("llama-cpp-python", llama_cpp.__version__)]

    def feed(self, ids):
        tokens = (llama_cpp.llama_token * len(ids))(*ids)
        status = llama_cpp.llama_decode(self.context, llama_cpp.llama_batch_get_one(tokens, len(ids)))
        if status != 0:
            raise SystemExit("llama_decode: %d" % status)
        row = llama_cpp.llama_get_logits_ith(self.context, -1)
        return int(numpy.ctypeslib.as_array(row, shape=(peers.VOCAB,)).argmax())

    def prefill(self, ids):
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), False)
        return self.feed(ids)

    def step(self, token):
        return self.feed([token])


if __name__ == "__main__":
    peers.main(Llama)
