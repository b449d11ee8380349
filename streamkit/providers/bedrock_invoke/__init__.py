"""Anthropic's Messages inside Amazon Bedrock's InvokeModelWithResponseStream.

https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-anthropic-claude-messages.html. The events are
Anthropic's to the letter, so this package is that one in Amazon's frames: it contains the frames and the two fields in
which the requests differ. Responses of other vendors' models are read too, each by the parser of its wire; requests to
them are not written. It is the one provider package that imports others.
"""

from __future__ import annotations

from streamkit.providers.bedrock_invoke.traits import TRAITS
from streamkit.providers.provider import Provider

__all__ = ["PROVIDERS"]

PROVIDERS = (Provider(TRAITS, __name__),)
