"""Counts tokens as a tokenizer of OpenAI does, which pip installs below target/."""

import subprocess
import sys

from product import TARGET

TOKENIZER = "bpe-openai==0.1.4"


def tokenizer():
    """Counts the tokens of a text by `o200k_base`."""
    folder = TARGET / "tokenizer"
    if not (folder / "bpe_openai").exists():
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--target", folder, TOKENIZER], check=True)
    sys.path.insert(0, str(folder))
    import bpe_openai

    encoding = bpe_openai.get_encoding("o200k_base")
    return lambda text: len(encoding.encode(text))
