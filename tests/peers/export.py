#!/usr/bin/env python3
"""The same seeded weights for every program: GPT-2 small, fp32, nothing quantised.

usage: python tests/peers/export.py FOLDER

The values are those that memtrace makes itself without --model (engine/checkpoint/checkpoint.h; tests/oracle/
seeded.py gives the same bits). It writes below FOLDER what the packages that are there need:

    hf/            config.json and model.safetensors: PyTorch, memtrace --model, CTranslate2's converter
    gpt2-f32.gguf  llama.cpp; no vocabulary, as only ids go in
    ctranslate2/   by CTranslate2's own converter, float32
    openvino/      a graph with a stateful cache, built from OpenVINO's operations

What is there already stays. A form that cannot be made is left out with one line saying why.
"""
import json
import os
import shutil
import sys

import numpy

from peers import HEADS, LAYERS, POSITIONS, VOCAB, WIDTH, seeded

EPSILON = 1e-5


def tensors():
    """Name as in the published file -> values; matrices of linear layers as [in, out] (Conv1D)."""
    C = WIDTH
    shapes = {"wte.weight": (VOCAB, C), "wpe.weight": (POSITIONS, C)}
    for i in range(LAYERS):
        h = "h.%d." % i
        shapes.update({
            h + "ln_1.weight": (C,), h + "ln_1.bias": (C,),
            h + "attn.c_attn.weight": (C, 3 * C), h + "attn.c_attn.bias": (3 * C,),
            h + "attn.c_proj.weight": (C, C), h + "attn.c_proj.bias": (C,),
            h + "ln_2.weight": (C,), h + "ln_2.bias": (C,),
            h + "mlp.c_fc.weight": (C, 4 * C), h + "mlp.c_fc.bias": (4 * C,),
            h + "mlp.c_proj.weight": (4 * C, C), h + "mlp.c_proj.bias": (C,)})
    shapes.update({"ln_f.weight": (C,), "ln_f.bias": (C,)})
    made = {}
    for name, shape in shapes.items():
        linear = len(shape) == 2 and name.startswith("h.")
        values = seeded.weights(name, 0, shape[::-1] if linear else shape)
        made[name] = numpy.ascontiguousarray(values.T) if linear else values
    return made


def hugging_face(values, folder):
    from safetensors.numpy import save_file
    os.makedirs(folder)
    config = {
        "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": LAYERS,
        "n_head": HEADS, "n_embd": WIDTH, "n_positions": POSITIONS, "n_ctx": POSITIONS,
        "vocab_size": VOCAB, "n_inner": None, "activation_function": "gelu_new",
        "layer_norm_epsilon": EPSILON, "tie_word_embeddings": True, "bos_token_id": VOCAB - 1,
        "eos_token_id": VOCAB - 1, "dtype": "float32"}
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f, indent=1)
    save_file({"transformer." + name: v for name, v in values.items()},
              os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})


GGUF_NAMES = {  # in a block; linear layers are transposed to [out, in]
    "ln_1": "attn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output",
    "ln_2": "ffn_norm", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}


def gguf_file(values, path):
    import gguf
    out = gguf.GGUFWriter(path, "gpt2")
    out.add_name("memtrace seeded")
    out.add_block_count(LAYERS)
    out.add_context_length(POSITIONS)
    out.add_embedding_length(WIDTH)
    out.add_feed_forward_length(4 * WIDTH)
    out.add_head_count(HEADS)
    out.add_layer_norm_eps(EPSILON)
    out.add_file_type(gguf.LlamaFileType.ALL_F32)
    out.add_tokenizer_model("none")
    out.add_vocab_size(VOCAB)
    for name, v in values.items():
        if name.startswith("h."):
            _, layer, rest = name.split(".", 2)
            part, kind = rest.rsplit(".", 1)
            name = "blk.%s.%s.%s" % (layer, GGUF_NAMES[part], kind)
            v = numpy.ascontiguousarray(v.T)
        else:
            name = name.replace("wte", "token_embd").replace("wpe", "position_embd")
            name = name.replace("ln_f", "output_norm")
        out.add_tensor(name, v)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


class IdsOnly:
    """In place of a tokenizer: names for the ids, and no text."""
    bos_token = eos_token = unk_token = "t%d" % (VOCAB - 1)

    def get_vocab(self):
        return {"t%d" % i: i for i in range(VOCAB)}


def ctranslate2_folder(hf, folder):
    from ctranslate2.converters import TransformersConverter

    class Converter(TransformersConverter):
        def load_tokenizer(self, *_, **__):
            return IdsOnly()

    Converter(hf).convert(folder)  # no quantization: float32 stays


def openvino_folder(values, folder):
    """GPT-2 in OpenVINO's operations. Keys and values of a layer are variables that its processor
    plug-in knows as a cache: read, reordered by beam_idx, the new rows appended, kept."""
    import openvino
    from openvino import opset13 as op
    from openvino.op.util import Variable, VariableInfo

    d = WIDTH // HEADS

    def constant(v, kind=numpy.int64):
        return op.constant(numpy.array(v, dtype=kind))

    def norm(x, name):
        y = op.mvn(x, constant([-1]), True, EPSILON, "INSIDE_SQRT")
        return op.add(op.multiply(y, op.constant(values[name + ".weight"])),
                      op.constant(values[name + ".bias"]))

    def linear(x, name):
        w = op.constant(numpy.ascontiguousarray(values[name + ".weight"].T))  # [out, in]
        return op.add(op.matmul(x, w, False, True), op.constant(values[name + ".bias"]))

    ids = op.parameter([-1, -1], numpy.int64, name="input_ids")
    positions = op.parameter([-1, -1], numpy.int64, name="position_ids")
    beams = op.parameter([-1], numpy.int32, name="beam_idx")
    for p, name in ((ids, "input_ids"), (positions, "position_ids"), (beams, "beam_idx")):
        p.output(0).set_names({name})
    axis = constant(0)
    wte = op.constant(values["wte.weight"])
    x = op.add(op.gather(wte, ids, axis), op.gather(op.constant(values["wpe.weight"]), positions, axis))
    batch = op.gather(op.shape_of(ids), constant([0]), axis)
    empty = op.broadcast(constant(0, numpy.float32),
                         op.concat([batch, constant([HEADS]), constant([0]), constant([d])], 0))
    kept, mask = [], None

    def split_heads(y):
        return op.transpose(op.reshape(y, constant([0, 0, HEADS, d]), True), constant([0, 2, 1, 3]))

    def cached(y, name):
        info = VariableInfo()
        info.data_shape = openvino.PartialShape([-1, HEADS, -1, d])
        info.data_type = openvino.Type.f32
        info.variable_id = name
        variable = Variable(info)
        past = op.gather(op.read_value(empty, variable), beams, axis)
        whole = op.concat([past, y], 2)
        kept.append(op.assign(whole, variable))
        return whole

    for i in range(LAYERS):
        h = "h.%d." % i
        qkv = op.split(linear(norm(x, h + "ln_1"), h + "attn.c_attn"), constant(2), 3)
        q, k, v = (split_heads(qkv.output(j)) for j in range(3))
        k, v = cached(k, "past_key.%d" % i), cached(v, "past_value.%d" % i)
        if mask is None:  # a position sees those up to itself
            total = op.squeeze(op.gather(op.shape_of(k), constant([2]), axis), constant([0]))
            places = op.range(constant(0), total, constant(1), "i64")
            seen = op.less_equal(places, op.unsqueeze(positions, constant([2])))
            mask = op.unsqueeze(op.select(seen, constant(0, numpy.float32),
                                          constant(-3e38, numpy.float32)), constant([1]))
        a = op.scaled_dot_product_attention(q, k, v, mask)
        a = op.reshape(op.transpose(a, constant([0, 2, 1, 3])), constant([0, 0, WIDTH]), True)
        x = op.add(x, linear(a, h + "attn.c_proj"))
        m = op.gelu(linear(norm(x, h + "ln_2"), h + "mlp.c_fc"), "tanh")
        x = op.add(x, linear(m, h + "mlp.c_proj"))
    last = op.gather(x, constant([-1]), constant(1))  # the head computes the last row only
    logits = op.matmul(norm(last, "ln_f"), wte, False, True)
    logits.output(0).set_names({"logits"})
    model = openvino.Model([op.result(logits)], kept, [ids, positions, beams], "gpt2")
    os.makedirs(folder)
    openvino.save_model(model, os.path.join(folder, "model.xml"), compress_to_fp16=False)


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    values = []

    def want(name, make):
        path = os.path.join(folder, name)
        if os.path.exists(path):
            return
        # Under another name until it is whole.
        part = path + ".part"
        shutil.rmtree(part, ignore_errors=True)
        if os.path.exists(part):
            os.remove(part)
        try:
            if not values:
                values.append(tensors())
            make(part)
        except Exception as e:  # any package may fail in its own way
            print("export: %s left out: %s: %s" % (name, type(e).__name__, str(e).split("\n")[0]))
            return
        os.rename(part, path)
        print("export: %s made" % path)

    want("hf", lambda path: hugging_face(values[0], path))
    want("gpt2-f32.gguf", lambda path: gguf_file(values[0], path))
    want("ctranslate2", lambda path: ctranslate2_folder(os.path.join(folder, "hf"), path))
    want("openvino", lambda path: openvino_folder(values[0], path))


main()
