"""A language model of a few thousand weights and its tokenizer of bytes, made on the spot: for trainers on the CPU."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl.chat_template_utils import qwen3_chat_template

_SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_WORDS = ("<tool_call>", "</tool_call>", "<think>", "</think>")


def tokenizer() -> PreTrainedTokenizerFast:
    """Bytes and the special tokens of Qwen 3, with its chat template, of which TRL knows how to read tool calls."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    bytes_only = Tokenizer(models.BPE(vocab={letter: number for number, letter in enumerate(alphabet)}, merges=[]))
    bytes_only.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    bytes_only.decoder = decoders.ByteLevel()
    bytes_only.add_special_tokens([AddedToken(token, special=True) for token in _SPECIAL])
    bytes_only.add_tokens([AddedToken(token, special=False) for token in _WORDS])
    return PreTrainedTokenizerFast(
        tokenizer_object=bytes_only,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        chat_template=qwen3_chat_template,
        padding_side="left",
    )


def _config(vocabulary: PreTrainedTokenizerFast) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        bos_token_id=None,
        eos_token_id=vocabulary.eos_token_id,
        pad_token_id=vocabulary.pad_token_id,
    )


def random_model(vocabulary: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """A model that knows nothing."""
    torch.manual_seed(0)
    return LlamaForCausalLM(_config(vocabulary))


class Actor(LlamaForCausalLM):
    """The same, but what it generates is said by `speak`, a function of the text so far."""

    vocabulary: PreTrainedTokenizerFast
    speak: Callable[[str], str]

    def generate(self, input_ids: Any, **kwargs: Any) -> Any:
        """What the actor says, with an end token each."""
        so_far = self.vocabulary.batch_decode(input_ids)
        said = [self.vocabulary(self.speak(text) + self.vocabulary.eos_token)["input_ids"] for text in so_far]
        longest = max(map(len, said))
        padded = [ids + [self.vocabulary.pad_token_id] * (longest - len(ids)) for ids in said]
        return torch.cat([input_ids, torch.tensor(padded)], dim=1)


def actor(vocabulary: PreTrainedTokenizerFast, speak: Callable[[str], str]) -> Actor:
    """A model that plays a part."""
    torch.manual_seed(0)
    model = Actor(_config(vocabulary))
    model.vocabulary = vocabulary
    model.speak = speak
    return model


def grpo_settings(folder: Path, **more: Any) -> dict[str, Any]:
    """Arguments of a trainer's config for one step, without anything that looks outside."""
    return {
        "output_dir": str(folder),
        "max_steps": 1,
        "per_device_train_batch_size": 8,
        "num_generations": 4,
        "max_completion_length": 8,
        "learning_rate": 1e-3,
        "logging_steps": 1,
        "report_to": "none",
        "save_strategy": "no",
        "use_cpu": True,
        "disable_tqdm": True,
        "seed": 0,
        "dataloader_pin_memory": False,
        **more,
    }
