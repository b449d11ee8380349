"""Bodies as coding clients and programs send them, shortened: one for each wire, with what translators lose.

Sources: Claude Code (Messages), Codex (Responses), gemini-cli (generateContent), programs on the other wires.
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

SCHEMA: Json = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
GRAMMAR = 'start: "*** Begin Patch" /(.|\\n)*/ "*** End Patch"'
PNG = "iVBORw0KGgo="

CLAUDE_CODE: Json = {
    "model": "claude-sonnet-4-5-20250929",
    "max_tokens": 32000,
    "stream": True,
    "temperature": 1,
    "system": [
        {"type": "text", "text": "You are a coding agent."},
        {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
    ],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "Weather?", "cache_control": {"type": "ephemeral"}}]},
        {"role": "system", "content": [{"type": "text", "text": "The date has changed."}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "A shell.", "signature": "c2lnbmVk"},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "toolu_01", "name": "Bash", "input": {"command": "date"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_01", "content": "Monday"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
                {"type": "text", "text": "Go on."},
            ],
        },
    ],
    "tools": [
        {"name": "Bash", "description": "Run a command", "input_schema": SCHEMA, "eager_input_streaming": True},
        {"name": "Read", "input_schema": SCHEMA, "cache_control": {"type": "ephemeral"}},
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 5},
    ],
    "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
    "thinking": {"type": "enabled", "budget_tokens": 31999},
    "output_config": {"effort": "high", "task_budget": {"total": 7}},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    "metadata": {"user_id": "user_1"},
    "stop_sequences": ["STOP"],
    "service_tier": "auto",
}

CODEX: Json = {
    "model": "gpt-5.2-codex",
    "instructions": "You are Codex.",
    "input": [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Sandbox: none."}]},
        {
            "type": "additional_tools",
            "role": "developer",
            "tools": [
                {
                    "type": "namespace",
                    "name": "files",
                    "description": "Files.",
                    "tools": [{"type": "custom", "name": "write_file", "description": "Write.", "defer_loading": True}],
                }
            ],
        },
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Weather?"},
                {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"},
            ],
        },
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"},
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_1",
            "namespace": "github",
            "name": "search",
            "arguments": '{"command":"date"}',
        },
        {"type": "function_call_output", "call_id": "call_1", "output": "Monday"},
        {"type": "custom_tool_call", "call_id": "call_2", "name": "apply_patch", "input": "*** Begin"},
        {"type": "custom_tool_call_output", "call_id": "call_2", "output": "Done"},
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Hurry."}]},
    ],
    "tools": [
        {"type": "function", "name": "exec_command", "description": "Run", "strict": False, "parameters": SCHEMA},
        {
            "type": "namespace",
            "name": "github",
            "description": "The forge.",
            "tools": [
                {"type": "function", "name": "search", "description": "Search", "strict": True, "parameters": SCHEMA},
                {"type": "function", "name": "exec_command", "parameters": SCHEMA},
            ],
        },
        {
            "type": "custom",
            "name": "apply_patch",
            "description": "Patch files.",
            "format": {"type": "grammar", "syntax": "lark", "definition": GRAMMAR},
        },
        {"type": "web_search", "external_web_access": True},
    ],
    "tool_choice": "auto",
    "parallel_tool_calls": False,
    "reasoning": {"effort": "high", "summary": "auto", "context": "all_turns"},
    "text": {
        "verbosity": "low",
        "format": {"type": "json_schema", "name": "answer", "schema": SCHEMA, "strict": True},
    },
    "include": ["reasoning.encrypted_content"],
    "store": False,
    "stream": True,
    "prompt_cache_key": "thread-1",
    "metadata": {"a": "b"},
}

CHAT: Json = {
    "model": "gpt-4.1",
    "messages": [
        {"role": "developer", "content": "Be brief."},
        {
            "role": "user",
            "name": "bob",
            "content": [
                {"type": "text", "text": "Weather?"},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
                {"type": "file", "file": {"file_id": "file-1"}},
            ],
        },
        {"role": "system", "content": "In French."},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "shell", "arguments": '{"command":"date"}'}},
                {"id": "call_2", "type": "custom", "custom": {"name": "apply_patch", "input": "*** Begin"}},
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "Monday"},
        {"role": "tool", "tool_call_id": "call_2", "content": "Done"},
    ],
    "tools": [
        {
            "type": "function",
            "function": {"name": "shell", "description": "Run", "parameters": SCHEMA, "strict": True},
        },
        {
            "type": "custom",
            "custom": {
                "name": "apply_patch",
                "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": GRAMMAR}},
            },
        },
    ],
    "tool_choice": {"type": "function", "function": {"name": "shell"}},
    "parallel_tool_calls": True,
    "max_completion_tokens": 900,
    "temperature": 1.5,
    "top_p": 0.9,
    "stop": ["a", "b"],
    "seed": 7,
    "frequency_penalty": 0.5,
    "presence_penalty": 0.25,
    "response_format": {"type": "json_object"},
    "stream": True,
    "stream_options": {"include_usage": True},
    "user": "u1",
    "logit_bias": {"50256": -100},
    "n": 1,
}

GEMINI: Json = {
    "systemInstruction": {"role": "user", "parts": [{"text": "Be brief."}]},
    "contents": [
        {
            "role": "user",
            "parts": [{"text": "Weather?"}, {"inlineData": {"mimeType": "image/png", "data": PNG}}],
        },
        {
            "role": "model",
            "parts": [
                {"functionCall": {"name": "run.shell", "args": {"command": "date"}}, "thoughtSignature": "c2ln"},
            ],
        },
        {"role": "user", "parts": [{"functionResponse": {"name": "run.shell", "response": {"output": "Monday"}}}]},
    ],
    "tools": [
        {
            "functionDeclarations": [
                {"name": "run.shell", "description": "Run", "parametersJsonSchema": SCHEMA},
                {
                    "name": "read",
                    "parameters": {
                        "type": "OBJECT",
                        "properties": {"the_path": {"type": "STRING", "nullable": True}},
                        "propertyOrdering": ["the_path"],
                    },
                    "behavior": "BLOCKING",
                },
            ]
        },
        {"googleSearch": {}},
    ],
    "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["run.shell"]}},
    "generationConfig": {
        "maxOutputTokens": 500,
        "temperature": 0,
        "topP": 0.95,
        "topK": 64,
        "stopSequences": ["x"],
        "seed": 3,
        "responseMimeType": "application/json",
        "responseJsonSchema": SCHEMA,
        "thinkingConfig": {"thinkingBudget": 1024, "includeThoughts": True},
        "mediaResolution": "MEDIA_RESOLUTION_LOW",
    },
    "safetySettings": [{"category": "HARM_CATEGORY_HATE_SPEECH", "threshold": "OFF"}],
}

COHERE: Json = {
    "model": "command-a-03-2025",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Weather?"},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
            ],
        },
        {
            "role": "assistant",
            "tool_plan": "A shell.",
            "tool_calls": [
                {"id": "c_1", "type": "function", "function": {"name": "shell", "arguments": '{"command":"date"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "c_1", "content": '{"day":"Monday"}'},
    ],
    "tools": [{"type": "function", "function": {"name": "shell", "description": "Run", "parameters": SCHEMA}}],
    "tool_choice": "REQUIRED",
    "max_tokens": 100,
    "temperature": 0.3,
    "p": 0.5,
    "k": 3,
    "stop_sequences": ["x"],
    "seed": 1,
    "thinking": {"type": "enabled", "token_budget": 500},
    "response_format": {"type": "json_object", "json_schema": SCHEMA},
    "stream": True,
    "citation_options": {"mode": "fast"},
    "safety_mode": "NONE",
}

OLLAMA: Json = {
    "model": "qwen3",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Weather?", "images": [PNG]},
        {
            "role": "assistant",
            "content": "I look.",
            "thinking": "A shell.",
            "tool_calls": [{"function": {"name": "shell", "arguments": {"command": "date"}}}],
        },
        {"role": "tool", "content": "Monday", "tool_name": "shell"},
    ],
    "tools": [{"type": "function", "function": {"name": "shell", "description": "Run", "parameters": SCHEMA}}],
    "options": {"temperature": 0.2, "top_k": 20, "num_predict": 64, "stop": ["x"], "num_ctx": 8192},
    "think": True,
    "format": SCHEMA,
    "keep_alive": "5m",
    "stream": False,
}

CONVERSE: Json = {
    "system": [{"text": "Be brief."}, {"cachePoint": {"type": "default"}}],
    "messages": [
        {
            "role": "user",
            "content": [
                {"text": "Weather?"},
                {"image": {"format": "png", "source": {"bytes": PNG}}},
                {"document": {"format": "pdf", "name": "report", "source": {"bytes": "JVBERi0="}}},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"reasoningContent": {"reasoningText": {"text": "A shell.", "signature": "c2ln"}}},
                {"text": "I look."},
                {"toolUse": {"toolUseId": "tooluse_1", "name": "shell", "input": {"command": "date"}}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"toolResult": {"toolUseId": "tooluse_1", "content": [{"json": {"day": "Monday"}}]}},
                {"text": "Go on."},
                {"cachePoint": {"type": "default", "ttl": "1h"}},
            ],
        },
    ],
    "inferenceConfig": {"maxTokens": 4000, "topP": 0.95, "stopSequences": ["x"]},
    "toolConfig": {
        "tools": [
            {"toolSpec": {"name": "shell", "description": "Run", "inputSchema": {"json": SCHEMA}}},
            {"cachePoint": {"type": "default"}},
        ],
        "toolChoice": {"auto": {}},
    },
    "additionalModelRequestFields": {"thinking": {"type": "enabled", "budget_tokens": 1024}, "anthropic_beta": ["x"]},
    "guardrailConfig": {"guardrailIdentifier": "g", "guardrailVersion": "1"},
}

#: For each provider the body, and the options that its path gives.
BODIES: dict[str, tuple[Json, Json]] = {
    "anthropic": (CLAUDE_CODE, {}),
    "openai_responses": (CODEX, {}),
    "openai_chat": (CHAT, {}),
    "gemini": (GEMINI, {"model": "gemini-2.5-pro", "stream": True}),
    "cohere": (COHERE, {}),
    "ollama": (OLLAMA, {}),
    "bedrock_converse": (
        CONVERSE,
        {"model": "us.anthropic.claude-sonnet-4-5-20250929-v1:0", "stream": True},
    ),
    "bedrock_invoke": (
        {
            "anthropic_version": "bedrock-2023-05-31",
            **{name: value for name, value in CLAUDE_CODE.items() if name not in ("model", "stream")},
        },
        {"model": "anthropic.claude-sonnet-4-5-20250929-v1:0", "stream": True},
    ),
}
