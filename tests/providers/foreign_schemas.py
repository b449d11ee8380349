"""Schemas of tools that exist, as data: what servers and other libraries' tests have.

The shapes only: descriptions are left out, except where a test of theirs is about one.
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

STRING: Json = {"type": "string"}
NUMBER: Json = {"type": "number"}
OBJECT: Json = {"type": "object"}
DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def values(*names: str) -> Json:
    return {"type": "string", "enum": list(names)}


#: Schemas that one of the targets refuses, by what it is, each from the report that is cited.
REFUSED: dict[str, Json] = {
    # https://github.com/MoonshotAI/kimi-code/issues/2661: Notion's notion-create-attachment
    "variants at the root": {
        "type": "object",
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "description": "Provide exactly one of the documented input variants.",
        "anyOf": [
            {
                "type": "object",
                "properties": {"filename": STRING, "content": STRING},
                "required": ["filename", "content"],
            },
            {
                "type": "object",
                "properties": {"filename": STRING, "source_url": STRING},
                "required": ["filename", "source_url"],
            },
        ],
    },
    # https://github.com/FTShare-Lab/FTShare-MCP/issues/7: ft_balance
    "required sets at the root": {
        "type": "object",
        "anyOf": [
            {"properties": {"stock_code": {}}, "required": ["stock_code"]},
            {"properties": {"report_type": {}, "year": {}}, "required": ["year", "report_type"]},
        ],
        "properties": {"stock_code": STRING, "year": {"type": "integer"}, "report_type": STRING},
        "required": [],
    },
    # https://github.com/MoonshotAI/kimi-cli/issues/1595
    "no type": {"type": "object", "properties": {"truncateMode": {"description": "mode"}}},
    "an option without a type": {
        "type": "object",
        "properties": {"from_format": {"anyOf": [STRING, {"description": "A format option"}]}},
    },
    # https://github.com/nicobailon/pi-subagents/issues/127
    "a type next to anyOf": {
        "type": "object",
        "properties": {"skill": {"type": "string", "anyOf": [{"minLength": 1}, {"type": "array", "items": STRING}]}},
    },
    # https://github.com/earendil-works/pi/issues/5822
    "conditions in allOf": {
        "type": "object",
        "properties": {"expand": STRING},
        "allOf": [
            {"if": {"required": ["expand"]}, "then": {"required": ["task"]}},
            {"if": {"required": ["collect"]}, "then": {"properties": {"task": STRING}}},
        ],
    },
    # https://github.com/MoonshotAI/kimi-cli/issues/2061
    "a description next to $ref": {
        "type": "object",
        "properties": {"assetRef": {"$ref": "#/$defs/Asset", "description": "the asset"}},
        "$defs": {"Asset": {"type": "object", "description": "an asset", "properties": {"id": STRING}}},
    },
    "an enum of several types": {"type": "object", "properties": {"limit": {"enum": [1, "all", None]}}},
    # https://github.com/Softeria/ms-365-mcp-server/issues/571, as zod-to-json-schema writes it for the MCP SDK
    "references to properties": {
        "type": "object",
        "properties": {
            "body": {
                "type": "object",
                "properties": {
                    "childFolders": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "properties": {
                                "name": STRING,
                                "childFolders": {
                                    "type": "array",
                                    "items": {"$ref": "#/properties/body/properties/childFolders/items"},
                                },
                            },
                        },
                    },
                    "start": {"anyOf": [{"type": "object", "properties": {"zone": STRING}}, {"type": "null"}]},
                    "zone": {"$ref": "#/properties/body/properties/start/anyOf/0/properties/zone", "description": "d"},
                },
            },
        },
    },
    # https://github.com/NousResearch/hermes-agent/pull/14804
    "definitions of draft 7": {
        "type": "object",
        "properties": {"filter": {"$ref": "#/definitions/Filter"}, "map": {"$ref": "#/definitions/Map%3Cstring%3E"}},
        "definitions": {
            "Filter": {
                "type": "object",
                "properties": {"all": {"type": "array", "items": {"$ref": "#/definitions/Filter"}}},
            },
            "Map<string>": {"type": "object", "additionalProperties": STRING},
        },
    },
    # https://github.com/anomalyco/opencode/issues/39995
    "a reference to nothing, and items in order": {
        "type": "object",
        "properties": {
            "foo": {"$ref": "#/components/schemas/Foo"},
            "pair": {"type": "array", "items": [STRING, {"type": "number"}]},
        },
    },
    # https://github.com/docker/mcp-gateway/pull/234, earendil-works/pi#5352, code-yeongyu/oh-my-openagent#2961
    "parts without a type": {
        "type": "object",
        "properties": {
            "value": {"description": "a value of any type"},
            "paths": {"items": STRING},
            "level": {"enum": ["low", "high"]},
            "filter": {"type": "object", "anyOf": [{"required": ["criteria"]}, {"description": "or nothing"}]},
        },
    },
    # https://github.com/lidge-jun/opencodex/issues/2673
    "a constraint next to $ref": {
        "type": "object",
        "properties": {"id": {"$ref": "#/$defs/b"}},
        "$defs": {"a": STRING, "b": {"type": "string", "minLength": 1, "description": "the id", "$ref": "#/$defs/a"}},
    },
}

_CONTACT: Json = {
    "anyOf": [
        {
            "type": "object",
            "properties": {"type": {"type": "string", "const": kind}, "value": STRING},
            "required": ["type", "value"],
            "additionalProperties": False,
        }
        for kind in ("email", "phone")
    ]
}

#: The inputs of the tests of Vercel's conversion to Gemini's OpenAPI subset (the field ``parameters``), Apache-2.0:
#: https://github.com/vercel/ai/blob/main/packages/google/src/convert-json-schema-to-openapi-schema.test.ts
#: The difference by design: here they are sent in ``parametersJsonSchema``, which takes JSON Schema, so that nothing
#: but ``$schema`` is removed.
VERCEL_INPUTS: dict[str, Json] = {
    "additionalProperties and $schema": {
        "$schema": DRAFT_7,
        "type": "object",
        "properties": {"name": STRING, "age": NUMBER},
        "additionalProperties": False,
    },
    "additionalProperties of nested objects": {
        "type": "object",
        "properties": {
            "keys": {"type": "object", "additionalProperties": STRING, "description": "Description for the key"}
        },
        "additionalProperties": False,
        "$schema": DRAFT_7,
    },
    "nested objects and arrays": {
        "type": "object",
        "properties": {
            "users": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"id": NUMBER, "name": STRING},
                    "additionalProperties": False,
                },
            }
        },
        "additionalProperties": False,
    },
    "const": {"type": "object", "properties": {"status": {"const": "active"}}},
    "allOf, anyOf, and oneOf": {
        "type": "object",
        "properties": {
            "allOfProp": {"allOf": [STRING, {"minLength": 5}]},
            "anyOfProp": {"anyOf": [STRING, NUMBER]},
            "oneOfProp": {"oneOf": [{"type": "boolean"}, {"type": "null"}]},
        },
    },
    "format": {"type": "object", "properties": {"timestamp": {"type": "string", "format": "date-time"}}},
    "required properties": {"type": "object", "properties": {"id": NUMBER, "name": STRING}, "required": ["id"]},
    "deeply nested const": {
        "type": "object",
        "properties": {
            "nested": {
                "type": "object",
                "properties": {
                    "deeplyNested": {
                        "anyOf": [{"type": "object", "properties": {"value": {"const": "specific value"}}}, STRING]
                    }
                },
            }
        },
    },
    "a complex schema": {
        "type": "object",
        "properties": {"name": STRING, "age": NUMBER, "contact": _CONTACT},
        "required": ["name", "age", "contact"],
        "additionalProperties": False,
        "$schema": DRAFT_7,
    },
    "null": {
        "type": "object",
        "properties": {"nullableField": {"type": ["string", "null"]}, "explicitNullField": {"type": "null"}},
    },
    "descriptions": {
        "type": "object",
        "description": "A user object",
        "properties": {"email": {"type": "string", "format": "email", "description": "The user's email address"}},
    },
    "an empty object": {"type": "object", "properties": {}},
    "nested empty objects": {
        "type": "object",
        "properties": {"url": STRING, "launchOptions": {"type": "object", "description": "PuppeteerJS LaunchOptions"}},
        "required": ["url", "launchOptions"],
    },
    "nested empty objects without descriptions": {
        "type": "object",
        "properties": {"options": OBJECT},
        "required": ["options"],
    },
    "string enums": {
        "type": "object",
        "properties": {"kind": values("text", "code", "image")},
        "required": ["kind"],
        "additionalProperties": False,
        "$schema": DRAFT_7,
    },
    "a nullable string enum": {
        "type": "object",
        "properties": {"fieldD": {"anyOf": [values("a", "b", "c"), {"type": "null"}]}},
        "required": ["fieldD"],
        "additionalProperties": False,
        "$schema": DRAFT_7,
    },
    "several types and null": {
        "type": "object",
        "properties": {"multiTypeField": {"type": ["string", "number", "null"]}},
    },
    "several types": {"type": "object", "properties": {"multiTypeField": {"type": ["string", "number"]}}},
    "min and max items": {
        "type": "object",
        "properties": {"list": {"type": "array", "minItems": 2, "maxItems": 5, "items": STRING}},
    },
}
