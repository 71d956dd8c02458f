#!/usr/bin/env python3
"""A small vocabulary of GPT-2's kind, and what Hugging Face's tokenizers make of texts with it.

    python vocabulary.py FOLDER

Learns 1,000 ids from FOLDER/text.txt and writes FOLDER/vocab.json, FOLDER/merges.txt,
FOLDER/golden.tsv (a row for each text below: its bytes in hexadecimal, its ids, the text for
people) and FOLDER/tokens.u16 (the ids of text.txt, two bytes each, the lower one first).
"""
import json
import struct
import sys

import tokenizers

END = "<|endoftext|>"
TEXTS = ["", " ", "  ", "     ", "\n", "\n\n\n", "\t\t", " \n \n", "x   y", "x \n  y", "end   ",
         "   start", "a\r\nb", "\v\f", "one two  three", "Memory", " memory", "MEMORY", "memories",
         "we're we've we'll we'd I'm he's don't", "WE'RE I'M DON'T", "'tis 'twas", "it's'd've",
         "''s '''t", "7", "1234567", "3.5 + 40 = 43.5", "10,000 bytes", "2^20", "v2.15.0+cu132",
         "x86_64", "٣٤٥ ४५ Ⅷ ½²", "Größe Öl Übermut", "déjà-vu à l'été", "ñandú ¿qué?",
         "e\u0301e\u0300 o\u0308", "żółć łąka", "Сколько байт?", "Ελληνικά", "שלום עולם",
         "السلام عليكم", "नमस्ते दुनिया", "ภาษาไทย", "日本語のテキスト", "中文文本", "한국어 텍스트",
         "😀😀 🧮", "👩‍🔬👨‍👩‍👧", "🇪🇺", "a\u00a0b\u3000c\u2009d", "a\u200bb\u2060c\ufeffd",
         "a\u2028b\u2029c\u0085d", "\x00\x01\x1f\x7f", "…—“”‘’", "!?!?...;;", "a_b-c/d\\e",
         "if (p != NULL)\n    free(p);\n", "<|endoftext|>", "https://example.org/a?b=c&d=%20#e",
         "ffffffffffffffffffffffffffffffffffffffff", "ababababababababab", "allocator",
         "reallocations", "unbelievably", "q", "Zz", "The block of 2 MiB is cut in two.",
         "tokens per second: 41.25 ± 0.5", "\U00010348\U0001d54f"]


def main():
    folder = sys.argv[1]
    with open(f"{folder}/text.txt", newline="") as f:
        text = f.read()
    t = tokenizers.Tokenizer(tokenizers.models.BPE())
    t.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.train_from_iterator([text], tokenizers.trainers.BpeTrainer(
        vocab_size=999, show_progress=False,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet()))
    learned = json.loads(t.to_str())["model"]
    vocab = learned["vocab"] | {END: len(learned["vocab"])}
    with open(f"{folder}/vocab.json", "w") as f:
        json.dump(vocab, f)
    with open(f"{folder}/merges.txt", "w") as f:
        f.write("#version: 0.2\n")
        f.writelines(" ".join(pair) + "\n" for pair in learned["merges"])
    with open(f"{folder}/golden.tsv", "w") as f:
        for one in TEXTS:
            ids = " ".join(map(str, t.encode(one).ids))
            f.write(f"{one.encode().hex()}\t{ids}\t{json.dumps(one)}\n")
    ids = t.encode(text).ids
    with open(f"{folder}/tokens.u16", "wb") as f:
        f.write(struct.pack(f"<{len(ids)}H", *ids))
    print(f"tokenizers {tokenizers.__version__}: {len(vocab)} ids, {len(ids)} tokens")


main()
