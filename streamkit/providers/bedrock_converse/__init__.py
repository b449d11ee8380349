"""Amazon Bedrock's Converse API: https://docs.aws.amazon.com/bedrock/latest/userguide/conversation-inference.html."""

from __future__ import annotations

from streamkit.providers.bedrock_converse.traits import TRAITS
from streamkit.providers.provider import Provider

__all__ = ["PROVIDERS"]

PROVIDERS = (Provider(TRAITS, __name__),)
