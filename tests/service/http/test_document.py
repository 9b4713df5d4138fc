"""The OpenAPI document, and the application held to it by generated requests."""

from collections import Counter
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    allow_header_conformance,
    content_type_conformance,
    negative_data_rejection,
    positive_data_acceptance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.service.http.conftest import Server, TestClient, bearer


def walk(value: Any) -> list[Any]:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [value, *(part for one in inside for part in walk(one))]


def test_the_document_describes_everything(anvil: TestClient) -> None:
    document = anvil.get("/v1/openapi.json").json()
    operations = [
        (path, method, one)
        for path, item in document["paths"].items()
        for method, one in item.items()
    ]
    assert len(operations) == 25
    for path, _, operation in operations:
        assert operation["summary"]
        assert operation["description"]
        assert bool(operation.get("security")) != path.startswith("/health")
        for status, answer in operation["responses"].items():
            kinds = set(answer["content"])
            assert kinds == (
                {"application/problem+json"}
                if int(status) >= 400
                else {"text/plain" if path == "/metrics" else "application/json"}
            )
    examples = [one for one in walk(document) if isinstance(one, dict) and "examples" in one]
    assert len(examples) > 20
    for name, schema in document["components"]["schemas"].items():
        assert schema["description"], name
    item = document["components"]["schemas"]["SlateItem"]["properties"]
    assert all(example > 0 for example in item["relevance"]["examples"])  # exp of a utility


def test_references_of_the_document_lead_somewhere(anvil: TestClient) -> None:
    document = anvil.get("/v1/openapi.json").json()
    for one in walk(document):
        if isinstance(one, dict) and "$ref" in one:
            place = document
            for part in one["$ref"].removeprefix("#/").split("/"):
                place = place[part]


CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
    positive_data_acceptance,
    allow_header_conformance,
]


@pytest.mark.xdist_group("server")
@pytest.mark.parametrize("mode", list(GenerationMode))
def test_generated_requests_are_answered_as_the_document_says(
    server: Server, mode: GenerationMode
) -> None:
    document = schemathesis.openapi.from_dict(server.client.get("/v1/openapi.json").json())
    tried: Counter[str] = Counter()
    for found in document.get_all_operations():
        operation = found.ok()
        if mode.is_negative and not (
            operation.body or operation.query or operation.path_parameters
        ):
            continue

        # The same requests in every run: drawn anew, an empty list in a query, which is written as
        # an empty text that is allowed, is now and then taken for a fault.
        @settings(
            max_examples=10,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
            derandomize=True,
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def check(case: schemathesis.Case) -> None:
            tried[case.operation.label] += 1
            case.call_and_validate(
                base_url=str(server.client.base_url),
                headers=bearer("admin"),
                checks=CHECKS,
                session=session,
            )

        with requests.Session() as session:
            check()
    assert len(tried) == (16 if mode.is_negative else 25)
    assert sum(tried.values()) > 60
    server.client.delete("/v1/arms").raise_for_status()  # others know the arms of the settings
    assert server.client.get("/health/ready").status_code == 200
