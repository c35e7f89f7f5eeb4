"""Inference of decoders: a pass over the prompt (prefill), then one token after another (decode) from a KV cache."""
