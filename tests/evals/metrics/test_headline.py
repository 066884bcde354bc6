"""The headline of a metric: the protocol that fits how its probes were asked and what their right answers are."""

import pytest

from emend.evals.case import Metric
from emend.evals.metrics.headline import ProbeKinds, headlines_of, text_kinds
from emend.evals.metrics.protocols import metrics_under
from emend.evals.metrics.requirement import check_requirement_names
from emend.memory.errors import BadSettings
from emend.memory.probe import Probe

PAPER = Metric(name="EditAcc", value="em", kinds=("efficacy",), scale=100)
OWN = PAPER.model_copy(update={"name": "efficacy", "published": False})
LIKELY = Metric(name="ES", value="success", kinds=("efficacy",), scale=100)
MEANT = OWN.model_copy(update={"name": "efficacy equivalence", "value": "equivalence", "protocol": "equivalence"})
CHAT = ProbeKinds(chat=("efficacy",))


@pytest.mark.parametrize(
    ("metric", "kinds", "protocols", "headline", "hidden"),
    [
        (PAPER, CHAT, (), "EditAcc contains", set()),  # the paper's stands beside it
        (PAPER, ProbeKinds(), (), "EditAcc", set()),  # plain text, as in the paper
        (OWN, CHAT, (), "efficacy contains", {"efficacy"}),
        (OWN, ProbeKinds(), (), "efficacy contains", {"efficacy"}),
        (OWN, CHAT, ("exact", "contains"), "efficacy contains", set()),  # asked for
        (OWN, CHAT, ("exact",), "efficacy", set()),
        (LIKELY, CHAT, (), "ES", set()),
        (LIKELY, CHAT, ("likelihood", "contains"), "ES", set()),
    ],
)
def test_the_headline_is_by_the_protocol_that_fits(
    metric: Metric, kinds: ProbeKinds, protocols: tuple[str, ...], headline: str, hidden: set[str]
) -> None:
    found = headlines_of(metrics_under([metric], protocols), kinds, protocols)
    assert found.resolve(metric.name) == headline and found.hidden == hidden


def test_answers_that_are_texts_are_compared_by_meaning() -> None:
    metrics = [*metrics_under([OWN], ()), MEANT]
    texts = CHAT._replace(texts=("efficacy",))
    assert headlines_of(metrics, texts).resolve("efficacy") == "efficacy equivalence"
    assert headlines_of(metrics, CHAT).resolve("efficacy") == "efficacy contains"
    assert headlines_of(metrics[:2], texts).resolve("efficacy") == "efficacy contains"


def test_a_kind_is_of_texts_if_most_of_its_right_answers_are() -> None:
    golds = {"efficacy": ["Rome", "The Eiffel Tower"], "long": ["word " * 11, "word " * 40, "yes"]}
    probes = [Probe(kind=kind, prompt="?", gold=(gold,)) for kind, each in golds.items() for gold in each]
    assert text_kinds(probes) == ("long",)


def test_names_in_thresholds_are_known_before_a_run() -> None:
    metrics = metrics_under([OWN], ())
    check_requirement_names(["efficacy>=90", "rag:efficacy exact>0.5", "efficacy contains>=90%"], metrics, ("rag",))
    with pytest.raises(BadSettings, match="did you mean 'efficacy'"):
        check_requirement_names(["efficasy>=0.9"], metrics, ("rag",))
    with pytest.raises(BadSettings, match="did you mean 'rag'"):
        check_requirement_names(["rga:efficacy>=0.9"], metrics, ("rag",))
