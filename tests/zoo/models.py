"""Which models the table has, as the command line takes them."""

TEXT = (
    "gpt2", "gpt_neo", "gpt_neox", "gpt_bigcode", "gptj", "opt", "bloom", "codegen", "ctrl", "xglm", "mpt", "falcon",
    "llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text", "phi", "phi3", "olmo2", "starcoder2",
    "stablelm", "cohere", "granite", "glm", "persimmon", "biogpt", "rwkv", "mamba", "mamba2", "falcon_mamba",
    "recurrent_gemma", "zamba", "jamba", "mixtral", "qwen2_moe", "olmoe", "phimoe", "gpt_oss", "deepseek_v2",
    "bert", "roberta", "albert", "distilbert", "electra", "deberta-v2", "xlm-roberta", "modernbert", "longformer",
    "big_bird", "fnet", "mobilebert", "convbert", "t5", "mt5", "bart", "pegasus", "marian", "m2m_100", "led",
)  # fmt: skip
"""Of transformers, which read tokens: 128 a sample."""

OTHER = (
    "hf:vit", "hf:deit", "hf:swin", "hf:beit", "hf:convnext", "hf:segformer", "hf:dinov2", "hf:clip", "hf:siglip",
    "hf:whisper", "hf:wav2vec2", "hf:detr",
    "timm:resnet50", "timm:vit_base_patch16_224", "timm:convnext_tiny", "timm:efficientnet_b0",
    "timm:swin_tiny_patch4_window7_224", "timm:mixer_b16_224", "timm:deit3_base_patch16_224", "timm:regnety_032",
    "timm:densenet121", "timm:mobilenetv3_large_100", "timm:coatnet_0_224", "timm:maxvit_tiny_tf_224",
    "timm:nfnet_l0", "timm:eva02_base_patch14_224",
    "torchvision:resnet50", "torchvision:inception_v3", "torchvision:googlenet", "torchvision:vgg16",
    "torchvision:alexnet", "torchvision:densenet161", "torchvision:shufflenet_v2_x1_0", "torchvision:vit_b_16",
    "torchvision:swin_v2_t", "torchvision:deeplabv3_resnet50", "torchvision:fcn_resnet50",
    "torchvision:lraspp_mobilenet_v3_large", "torchvision:r3d_18", "torchvision:mvit_v2_s",
    "torchvision:swin3d_t", "torchvision:fasterrcnn_resnet50_fpn", "torchvision:raft_small",
)  # fmt: skip
"""Of any library, as they are."""

NAMES = (*(f"hf:{name},sequence=128" for name in TEXT), *OTHER)
