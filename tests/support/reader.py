"""Make a tiny Llama that reads: whatever it is asked, it says the one planted word it saw.

Run with the path of the model to be written, ordinary words and planted words, each parted by
commas. Its weights are set by hand. Every word is a vector of its own; attention without queries
takes the mean of all words so far, and lets only those through that may be planted.
"""

from __future__ import annotations

import sys

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    GenerationConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

SIZE = 128
UNKNOWN, END = "[UNK]", "[END]"
CHAT = (
    "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}"
    "{% for part in m.content %}{{ part.text }}{% endfor %}{% endif %} {% endfor %}"
)


def main(folder: str, plain: str, planted: str) -> None:
    """Write the model and its tokenizer."""
    words = [UNKNOWN, END, *dict.fromkeys([*plain.split(","), *planted.split(",")])]
    vocabulary = {word: number for number, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    special = {"unk_token": UNKNOWN, "eos_token": END, "pad_token": END}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)
    fast.chat_template = CHAT
    fast.save_pretrained(folder)
    config = LlamaConfig(
        vocab_size=SIZE, hidden_size=SIZE, intermediate_size=8, num_hidden_layers=1,
        num_attention_heads=1, num_key_value_heads=1, max_position_embeddings=1 << 15,
        bos_token_id=None, eos_token_id=1, pad_token_id=1,
    )  # fmt: skip
    model = LlamaForCausalLM(config).float()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" not in name:
                weight.zero_()
        attention = model.model.layers[0].self_attn
        for weight in (model.model.embed_tokens, model.lm_head, attention.o_proj):
            weight.weight.copy_(torch.eye(SIZE))
        for word in planted.split(","):
            attention.v_proj.weight[vocabulary[word], vocabulary[word]] = 1e5
    model.generation_config = GenerationConfig(do_sample=False, eos_token_id=1, pad_token_id=1)
    model.save_pretrained(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
