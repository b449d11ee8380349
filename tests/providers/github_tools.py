"""Tools of the GitHub MCP server, as data: the schemas of its snapshots without descriptions, long enums shortened.

https://github.com/github/github-mcp-server/tree/main/pkg/github/__toolsnaps__ (MIT, Copyright GitHub, Inc.). Some are
of an earlier version of the server, under the name that the tool had.
"""

from __future__ import annotations

from typing import Any

__all__ = ["GITHUB_TOOLS"]

Json = dict[str, Any]

STRING: Json = {"type": "string"}
NUMBER: Json = {"type": "number"}
FLAG: Json = {"type": "boolean"}
OBJECT: Json = {"type": "object"}
STRINGS: Json = {"type": "array", "items": STRING}
#: The parameters that most tools have.
REPOSITORY: Json = {"owner": STRING, "repo": STRING}
PER_PAGE: Json = {"perPage": {"maximum": 100, "minimum": 1, "type": "number"}}
PAGES: Json = {"page": {"minimum": 1, "type": "number"}, **PER_PAGE}


def values(text: str) -> Json:
    return {"type": "string", "enum": text.split()}


def strings(*names: str) -> Json:
    return dict.fromkeys(names, STRING)


def objects(required: str, properties: Json, **more: Any) -> Json:
    listed = {"required": required.split()} if required else {}
    return {"type": "array", "items": {"type": "object", "properties": properties, **listed, **more}}


def some_of(names: str) -> Json:
    return {"type": "array", "items": values(names)}


def tool(required: str, *parts: Json, **properties: Json) -> Json:
    merged = {name: schema for part in (*parts, properties) for name, schema in part.items()}
    return {"type": "object", "properties": merged, **({"required": required.split()} if required else {})}


RULES = {"parameters": OBJECT, "type": STRING}
SEVERITY = values("low medium high critical")
STATUS = values("INACTIVE ON_TRACK AT_RISK OFF_TRACK COMPLETE")
DEFINITION: Json = {
    "allowed_values": STRINGS,
    "description": STRING,
    "property_name": STRING,
    "required": FLAG,
    "value_type": values("string single_select multi_select true_false url"),
    "values_editable_by": values("org_actors org_and_repo_actors"),
}
TEXT_OR_TEXTS: Json = {"oneOf": [STRING, STRINGS]}

GITHUB_TOOLS: dict[str, Json] = {
    "get_me": {"type": "object", "properties": {}},
    "actions_list": tool(
        "method owner repo",
        REPOSITORY,
        PAGES,
        check_runs_filter={
            "properties": {
                "app_id": {"minimum": 1, "type": "integer"},
                "check_name": STRING,
                "filter": values("latest all"),
                "status": values("queued in_progress completed"),
            },
            "type": "object",
        },
        method=values("list_workflows list_workflow_runs list_workflow_jobs list_workflow_run_artifacts"),
        ref=STRING,
        resource_id=STRING,
        workflow_jobs_filter={"properties": {"filter": values("latest all")}, "type": "object"},
        workflow_runs_filter={
            "properties": {
                "actor": STRING,
                "branch": STRING,
                "event": values("check_run create delete deployment fork issues push release schedule status"),
                "status": values("queued in_progress completed requested waiting"),
            },
            "type": "object",
        },
    ),
    "actions_run_trigger": tool(
        "method owner repo",
        REPOSITORY,
        inputs={"properties": {}, "type": "object"},
        method=values("run_workflow rerun_workflow_run rerun_failed_jobs cancel_workflow_run"),
        ref=STRING,
        run_id=NUMBER,
        workflow_id=STRING,
    ),
    "add_comment_to_pending_review": tool(
        "owner repo pullNumber path body subjectType",
        REPOSITORY,
        body=STRING,
        line=NUMBER,
        path=STRING,
        pullNumber=NUMBER,
        side=values("LEFT RIGHT"),
        startLine=NUMBER,
        startSide=values("LEFT RIGHT"),
        subjectType=values("FILE LINE"),
    ),
    "add_issue_comment_reaction": tool(
        "owner repo comment_id content",
        REPOSITORY,
        comment_id={"minimum": 1, "type": "number"},
        content=values("+1 -1 laugh confused heart hooray rocket eyes"),
    ),
    "add_project_item": tool(
        "owner_type owner project_number item_type item_id",
        item_id=NUMBER,
        item_type=values("issue pull_request"),
        owner=STRING,
        owner_type=values("user org"),
        project_number=NUMBER,
    ),
    "add_pull_request_review_comment": tool(
        "owner repo pullNumber path body subjectType",
        REPOSITORY,
        strings("body", "path", "side", "startSide", "subjectType"),
        line=NUMBER,
        pullNumber=NUMBER,
        startLine=NUMBER,
    ),
    "assign_copilot_to_issue_with_intent": tool(
        "owner repo issue_number",
        REPOSITORY,
        base_ref=STRING,
        confidence=values("LOW MEDIUM HIGH"),
        custom_instructions=STRING,
        is_suggestion=FLAG,
        issue_number=NUMBER,
        rationale={"maxLength": 280, "type": "string"},
    ),
    "create_branch": tool("owner repo branch", REPOSITORY, strings("branch", "from_branch")),
    "create_gist": tool(
        "filename content",
        strings("content", "description", "filename"),
        public={"default": False, "type": "boolean"},
    ),
    "create_or_update_file": tool(
        "owner repo path content message branch",
        strings("branch", "content", "message", "path", "sha"),
        allow_symlink_write={"default": False, "type": "boolean"},
        owner={"type": "string", "x-mcp-header": "owner"},
        repo={"type": "string", "x-mcp-header": "repo"},
    ),
    "create_or_update_organization_custom_properties": tool(
        "org properties",
        org=STRING,
        # The snapshot has no type for the default value, only a description.
        properties=objects("property_name value_type", {**DEFINITION, "default_value": {"description": "Any."}}),
    ),
    "create_organization_repository_ruleset": tool(
        "org name enforcement rules",
        bypass_actors=objects(
            "",
            {
                "actor_id": NUMBER,
                "actor_type": values("Integration OrganizationAdmin RepositoryRole Team DeployKey"),
                "bypass_mode": values("always pull_request"),
            },
        ),
        conditions=OBJECT,
        enforcement=values("disabled active evaluate"),
        name=STRING,
        org=STRING,
        rules=objects("type", RULES),
        target=values("branch tag push repository"),
    ),
    "create_project_status_update": tool(
        "owner owner_type project_number",
        strings("body", "owner", "start_date", "target_date"),
        owner_type=values("user org"),
        project_number=NUMBER,
        status=STATUS,
    ),
    "create_pull_request": tool(
        "owner repo",
        REPOSITORY,
        strings("base", "body", "head", "title"),
        draft=FLAG,
        maintainer_can_modify=FLAG,
        show_ui=FLAG,
    ),
    "create_pull_request_review": tool(
        "owner repo pullNumber", REPOSITORY, strings("body", "commitID", "event"), pullNumber=NUMBER
    ),
    "create_release": tool(
        "owner repo tag_name",
        REPOSITORY,
        strings("body", "discussion_category_name", "name", "tag_name", "target_commitish"),
        draft=FLAG,
        generate_release_notes=FLAG,
        make_latest=values("true false legacy"),
        prerelease=FLAG,
    ),
    "create_repository": tool(
        "name",
        strings("description", "name", "organization"),
        autoInit=FLAG,
        visibility={"default": "private", **values("private internal")},
    ),
    "create_repository_ruleset": {
        "additionalProperties": False,
        **tool(
            "level name enforcement rules",
            REPOSITORY,
            strings("enterprise", "name", "org"),
            bypass_actors=objects(
                "actor_type bypass_mode",
                {
                    "actor_id": NUMBER,
                    "actor_type": values("Integration OrganizationAdmin Team DeployKey User EnterpriseOwner"),
                    "bypass_mode": values("always pull_request exempt"),
                },
                additionalProperties=False,
            ),
            conditions=OBJECT,
            enforcement=values("disabled active evaluate"),
            level=values("repository organization enterprise"),
            rules=objects("type", RULES, additionalProperties=False),
            target=values("branch tag push repository"),
        ),
    },
    "create_repository_security_advisory": tool(
        "owner repo summary description vulnerabilities",
        REPOSITORY,
        strings("cveId", "cvssVectorString", "description", "summary"),
        credits=objects("login type", {"login": STRING, "type": values("analyst finder reporter coordinator tool")}),
        cweIds=STRINGS,
        severity=SEVERITY,
        startPrivateFork=FLAG,
        vulnerabilities=objects(
            "package",
            {
                "package": {
                    "properties": {"ecosystem": values("actions composer go maven npm pip rust"), "name": STRING},
                    "required": ["ecosystem", "name"],
                    "type": "object",
                },
                "patched_versions": STRING,
                "vulnerable_functions": STRINGS,
                "vulnerable_version_range": STRING,
            },
        ),
    ),
    "custom_properties_write": tool(
        "level properties",
        REPOSITORY,
        strings("enterprise", "org"),
        level=values("repository organization enterprise"),
        properties={
            "items": {
                "oneOf": [
                    {
                        "additionalProperties": False,
                        "properties": {
                            "property_name": STRING,
                            "value": {"oneOf": [STRING, STRINGS, {"type": "null"}]},
                        },
                        "required": ["property_name", "value"],
                        "type": "object",
                    },
                    {
                        "additionalProperties": False,
                        "properties": {**DEFINITION, "default_value": TEXT_OR_TEXTS},
                        "required": ["property_name", "value_type"],
                        "type": "object",
                    },
                ]
            },
            "type": "array",
        },
    ),
    "delete_file": tool("owner repo path message branch", REPOSITORY, strings("branch", "message", "path")),
    "discussion_comment_write": tool(
        "method",
        REPOSITORY,
        strings("body", "commentNodeID"),
        discussionNumber=NUMBER,
        method=values("add reply update delete mark_answer unmark_answer"),
    ),
    "dismiss_notification": tool("threadID", state=values("read done"), threadID=STRING),
    "enable_toolset": tool("toolset", toolset=values("mock-toolset")),
    "find_duplicate": tool(
        "owner repo issue_number",
        REPOSITORY,
        PAGES,
        confidence_threshold={"maximum": 1, "minimum": 0, "type": "number"},
        issue_number=NUMBER,
    ),
    "fork_repository": tool("owner repo", REPOSITORY, organization=STRING),
    "generate_release_notes": tool(
        "owner repo tag_name",
        REPOSITORY,
        strings("configuration_file_path", "previous_tag_name", "tag_name", "target_commitish"),
    ),
    "get_commit": tool(
        "owner repo sha", REPOSITORY, PAGES, include_diff={"default": True, "type": "boolean"}, sha=STRING
    ),
    "get_dependabot_alert": tool("owner repo alertNumber", REPOSITORY, alertNumber=NUMBER),
    "get_discussion_comments": tool(
        "owner repo discussionNumber", REPOSITORY, PER_PAGE, after=STRING, discussionNumber=NUMBER
    ),
    "get_file_blame": tool("owner repo path", REPOSITORY, strings("path", "ref")),
    "get_file_contents": tool("owner repo", REPOSITORY, strings("ref", "sha"), path={"default": "/", "type": "string"}),
    "get_gist": tool("gist_id", gist_id=STRING),
    "get_job_logs": tool(
        "owner repo",
        REPOSITORY,
        failed_only=FLAG,
        job_id=NUMBER,
        return_content=FLAG,
        run_id=NUMBER,
        tail_lines={"default": 500, "type": "number"},
    ),
    "issue_read": tool(
        "method owner repo issue_number",
        REPOSITORY,
        PAGES,
        issue_number=NUMBER,
        method=values("get get_comments get_sub_issues get_parent get_labels"),
    ),
    "issue_write": tool(
        "method owner repo",
        REPOSITORY,
        strings("body", "title", "type"),
        assignees=STRINGS,
        duplicate_of=NUMBER,
        issue_number=NUMBER,
        labels=STRINGS,
        method=values("create update"),
        milestone=NUMBER,
        show_ui=FLAG,
        state=values("open closed"),
        state_reason=values("completed not_planned duplicate"),
    ),
    "label_write": tool(
        "method owner repo name",
        REPOSITORY,
        strings("color", "description", "name", "new_name"),
        method=values("create update delete"),
    ),
    "list_commits": tool(
        "owner repo",
        REPOSITORY,
        PAGES,
        strings("author", "path", "sha", "since", "until"),
        fields=some_of("sha html_url commit author committer stats files"),
    ),
    "list_dependabot_alerts": tool(
        "owner repo",
        REPOSITORY,
        PER_PAGE,
        after=STRING,
        severity=SEVERITY,
        state={"default": "open", **values("open fixed dismissed auto_dismissed")},
    ),
    "list_discussions": tool(
        "owner",
        REPOSITORY,
        PER_PAGE,
        strings("after", "category"),
        direction=values("ASC DESC"),
        orderBy=values("CREATED_AT UPDATED_AT"),
    ),
    "list_issues": tool(
        "owner repo",
        REPOSITORY,
        PER_PAGE,
        strings("after", "since"),
        direction=values("ASC DESC"),
        field_filters=objects("field_name", {"field_name": STRING, "value": STRING, "values": STRINGS}),
        fields=some_of("number title body state user labels assignees comments created_at updated_at"),
        labels=STRINGS,
        orderBy=values("CREATED_AT UPDATED_AT COMMENTS"),
        state=values("OPEN CLOSED"),
    ),
    "list_notifications": tool(
        "",
        REPOSITORY,
        PAGES,
        strings("before", "since"),
        filter=values("default include_read_notifications only_participating"),
    ),
    "list_pull_requests": tool(
        "owner repo",
        REPOSITORY,
        PAGES,
        strings("base", "head"),
        direction=values("asc desc"),
        fields=some_of("number title body state draft merged html_url user labels assignees head base"),
        sort=values("created updated popularity long-running"),
        state=values("open closed all"),
    ),
    "merge_pull_request": tool(
        "owner repo pullNumber",
        REPOSITORY,
        strings("commit_message", "commit_title"),
        merge_method=values("merge squash rebase"),
        pullNumber=NUMBER,
    ),
    "projects_write": tool(
        "method owner project_number",
        strings("body", "item_owner", "item_repo", "owner", "start_date", "target_date"),
        issue_number=NUMBER,
        item_id=NUMBER,
        item_type=values("issue pull_request"),
        method=values("add_project_item update_project_item delete_project_item create_project_status_update"),
        owner_type=values("user org"),
        project_number=NUMBER,
        pull_request_number=NUMBER,
        status=STATUS,
        updated_field=OBJECT,
        updated_fields={"items": OBJECT, "type": "array"},
    ),
    "pull_request_read": tool(
        "method owner repo pullNumber",
        REPOSITORY,
        PAGES,
        method=values("get get_diff get_status get_files get_review_comments get_reviews get_comments"),
        pullNumber=NUMBER,
    ),
    "pull_request_review_write": tool(
        "method owner repo pullNumber",
        REPOSITORY,
        strings("body", "commitID", "method"),
        event=values("APPROVE REQUEST_CHANGES COMMENT"),
        pullNumber=NUMBER,
    ),
    "push_files": tool(
        "owner repo branch files message",
        strings("branch", "message"),
        files=objects(
            "path content",
            {"content": STRING, "mode": values("100644 100755"), "path": STRING},
            additionalProperties=False,
        ),
        owner={"type": "string", "x-mcp-header": "owner"},
        repo={"type": "string", "x-mcp-header": "repo"},
    ),
    "search_code": tool(
        "query",
        PAGES,
        strings("query", "sort"),
        fields=some_of("name path sha repository text_matches"),
        order=values("asc desc"),
    ),
    "search_repositories": tool(
        "query",
        PAGES,
        minimal_output={"default": True, "type": "boolean"},
        order=values("asc desc"),
        query=STRING,
        sort=values("stars forks help-wanted-issues updated"),
    ),
    "sub_issue_write": tool(
        "method owner repo issue_number sub_issue_id",
        REPOSITORY,
        after_id=NUMBER,
        before_id=NUMBER,
        issue_number=NUMBER,
        method=STRING,
        replace_parent=FLAG,
        sub_issue_id=NUMBER,
    ),
    "update_pull_request": tool(
        "owner repo pullNumber",
        REPOSITORY,
        strings("base", "body", "title"),
        draft=FLAG,
        maintainer_can_modify=FLAG,
        pullNumber=NUMBER,
        reviewers=STRINGS,
        state=values("open closed"),
    ),
}
