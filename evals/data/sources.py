"""Origins of the benchmarks' files: commit, licence, and checksum if it is known.

A commit and a path are listed only if they were read in the repository itself or in its list of files, a checksum only
if it was taken from a complete, unchanged file. A file without a checksum is still fetched from one commit, and its
checksum is recorded.
"""

from pathlib import PurePosixPath
from typing import Annotated

from pydantic import AfterValidator

from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings
from emend.memory.registry import nearest

RAW = "https://raw.githubusercontent.com"


def _inside(name: str) -> str:
    """Return a file's path below the data folder.

    Raises:
        ValueError: it would lie elsewhere.
    """
    path = PurePosixPath(name)
    if not name or path.is_absolute() or ".." in path.parts or "\\" in name or str(path) != name:
        raise ValueError(f"'{name}' is no plain path below a folder")
    return name


Name = Annotated[str, AfterValidator(_inside)]


class Remote(FrozenModel):
    """File to fetch."""

    name: Name
    """Its place below the data folder, where the loader looks."""
    url: str
    licence: str
    repository: str = ""
    commit: str = ""
    """"" where the origin has no versions."""
    digest: str = ""
    """`sha256:HEX`, or `git-blob:HEX`, git's own id of the content; "" where neither is known."""
    size: int | None = None
    """In bytes, where it is known."""


class Made(FrozenModel):
    """File that is not published in the needed form, made from others of the table."""

    name: Name
    inputs: tuple[str, ...]
    maker: str
    """A key of `make.MAKERS`."""
    licence: str


class DataSource(FrozenModel):
    """All files of a benchmark; `notes` say what cannot be had, or what else must be known."""

    name: str
    remotes: tuple[Remote, ...]
    made: tuple[Made, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def licences(self) -> tuple[str, ...]:
        """Each licence once."""
        return tuple(dict.fromkeys(remote.licence for remote in self.remotes))

    @property
    def origins(self) -> tuple[str, ...]:
        """Each origin once: a repository, or the host of an address."""
        return tuple(dict.fromkeys(r.repository or r.url.split("/")[2] for r in self.remotes))


class _Repository(FrozenModel):
    """A repository at GitHub under one licence."""

    owner: str
    licence: str
    commit: str

    def file(self, path: str, name: str = "", digest: str = "", size: int | None = None, commit: str = "") -> Remote:
        """A file of it, kept as `name`, by default as it is called there."""
        version = commit or self.commit
        return Remote(
            name=name or PurePosixPath(path).name,
            url=f"{RAW}/{self.owner}/{version}/{path}",
            licence=self.licence,
            repository=f"github.com/{self.owner}",
            commit=version,
            digest=digest,
            size=size,
        )


_AKEW = _Repository(
    owner="BobXWu/AKEW",
    licence="none stated by AKEW; its MQuAKE records are MIT (princeton-nlp)",
    commit="75fdc23f63cc06673bf75e3e39b12597ce18fec7",
)
_DOCTER = _Repository(
    owner="H-shw/DocTER-Data-and-Code",
    licence="none stated by DocTER; made from CounterFact",
    commit="283a158127ef7bc890477666674607538587193d",
)
_SPREAD = _Repository(
    owner="Jometeorie/KnowledgeSpread",
    licence="Apache-2.0 by its README; the facts are CounterFact's (MIT)",
    commit="51d7402617c2e52bde0dc11b76e400c3725a181a",
)
_ELKEN = _Repository(
    owner="THU-KEG/Event-Level-Knowledge-Editing",
    licence="CC BY-NC-SA 4.0 by the repository; the paper says CC BY-SA 4.0",
    commit="2e738ae1a5d1769db7150d836ee6d4136aca12ac",
)
_ELKEN_SERAC = "abc9ee02e581628b7038b4357a85eacd9e99aa9a"
_ROCOE = _Repository(
    owner="Wenyueh/RoCoE",
    licence="MIT, (c) 2024 Wenyue Hua",
    commit="8bd3b6dce7dbe41d824d39b48785eb0dd765386c",
)
_AWSLABS = _Repository(
    owner="awslabs/ReCoE", licence="CC BY-NC-ND 4.0", commit="cb1dc0311258762dd1a49f34814e2a568b5b8333"
)
_MQUAKE = _Repository(
    owner="princeton-nlp/MQuAKE",
    licence="MIT, (c) Princeton Natural Language Processing",
    commit="fb43dadc2d8cd19d08ce81c63d957b59deb3f3cd",
)
_SUPERLATIVE = "superlative/counterfactual_datapoints_verified_atomic.json"
_PROMPTS = (
    ("MeLLo-prompt.txt", "022f97a82c8d889a7fa2e945d636f58a124de57160866e7958170aba8b17e937", 3536),
    ("multihop-cot-prompts.txt", "f74ad1cca21841d83a63b868d2e694c164aaaf8636a659e193fc99f41005cafa", 1160),
    ("multihop-prompts.txt", "1d6f48038599dec1ea63080c07f946f47f57c3227a3428b0efdca88cf566de17", 1135),
    ("rel-prompts.json", "5186c6bd07a60d3f561b17200c1e86c5f21215bbc3883d9a9c99d57da7871910", 20038),
    ("templates/cloze_templates.json", "2b06da99237d67e40844e727efb24795d8990d99a00868d95c4276ff7e1c7d84", 1927),
    ("templates/question_templates.json", "d3a5421ce3cbd6d51e77e3b854d7fd13b98f161c0d54daa597456d804a170d96", 2058),
)
_ROME, _MEMIT = "https://rome.baulab.info/data/dsets", "https://memit.baulab.info/data/dsets"


def _akew() -> DataSource:
    return DataSource(
        name="akew",
        remotes=(
            _AKEW.file(
                "datasets/MQuAKE-CF.json", digest="git-blob:4d2a8189c9c5601cd1d41f1fa95a6c541f639fd6", size=3183842
            ),
            _AKEW.file("datasets/CounterFact.json"),
            _AKEW.file("datasets/WikiUpdate.json"),
        ),
        notes=("WikiUpdate.json holds 1,056 records where the paper counts 1,067 edits.",),
    )


def _docter() -> DataSource:
    facts = ("counterfact-edit.json", "counterfact-train.json", "counterfact-val.json")
    inputs = tuple(f"counterfact/{name}" for name in facts)
    here = ("edit_success_eval", "locality_eval", "cross_en_eval", "cross_zh_eval")
    documents = ("crosslingual_en_doc", "crosslingual_zh_doc")
    return DataSource(
        name="docter",
        remotes=(
            *(_DOCTER.file(f"data/{name}.json") for name in (*here, *documents)),
            _DOCTER.file("data/docs/en_doc.json", commit="90075328876faa50eadfb9cbe57c397885631175"),
            _DOCTER.file("data/test_data/reasoning_eval.json", commit="7f32e2873c16c7a8fb68d99b65e7e66ad2e03943"),
            *(_SPREAD.file(f"data/counterfact/{name}", f"counterfact/{name}") for name in facts),
        ),
        made=(Made(name="gold_facts.json", inputs=inputs, maker="docter_facts", licence=_SPREAD.licence),),
        notes=("The triplets of the settings 'llm' and 'tool' are not published.",),
    )


def _elken() -> DataSource:
    parts = {"fact": 3535122, "tendency": 2021516}
    return DataSource(
        name="elken",
        remotes=(
            _ELKEN.file("data/original/train.json", size=3451549),
            _ELKEN.file("model-know/qas.json", "background_knowledge_qas.json"),
            *(
                _ELKEN.file(f"serac/output/{part}/test-with-serac.json", f"serac/{part}.json", "", size, _ELKEN_SERAC)
                for part, size in parts.items()
            ),
        ),
        made=(
            Made(
                name="test.json",
                inputs=("serac/tendency.json", "serac/fact.json"),
                maker="elken_test",
                licence=_ELKEN.licence,
            ),
        ),
        notes=(
            "data/original/test.json is published cut off in the middle, so test.json is put together from serac/.",
        ),
    )


def _recoe() -> DataSource:
    schemes = ("comparative", "counting", "sorting", "aggregation", "subtraction")
    return DataSource(
        name="recoe",
        remotes=(
            *(_ROCOE.file(f"data/{scheme}.json") for scheme in schemes),
            _AWSLABS.file(f"data/{_SUPERLATIVE}", _SUPERLATIVE),
        ),
        notes=(
            "superlative is at awslabs/ReCoE only, under a licence of its own; its path there is that of its sister "
            "files and was not seen: if it is not found, look into the repository and put the file in by hand.",
        ),
    )


def _mquake() -> DataSource:
    names = ("MQuAKE-CF-3k", "MQuAKE-CF-3k-v2", "MQuAKE-CF", "MQuAKE-T")
    return DataSource(
        name="mquake",
        remotes=(
            *(_MQUAKE.file(f"datasets/{name}.json", f"datasets/{name}.json") for name in names),
            *(
                _MQUAKE.file(f"prompts/{name}", f"prompts/{name}", f"sha256:{digest}", size)
                for name, digest, size in _PROMPTS
            ),
        ),
    )


def _counterfact() -> DataSource:
    texts = ("attribute_snippets.json", "idf.npy", "tfidf_vocab.json")
    places = {"counterfact.json": _ROME, **dict.fromkeys(texts, _ROME), "multi_counterfact.json": _MEMIT}
    licences = {_ROME: "MIT (kmeng01/rome)", _MEMIT: "MIT (kmeng01/memit)"}
    flat = ("counterfact-edit.json", "counterfact-edit-evidence-1k.json")
    return DataSource(
        name="counterfact",
        remotes=(
            *(Remote(name=name, url=f"{place}/{name}", licence=licences[place]) for name, place in places.items()),
            *(_SPREAD.file(f"data/counterfact/{name}") for name in flat),
        ),
        notes=(
            "attribute_snippets.json, idf.npy and tfidf_vocab.json are what the consistency score RS compares with.",
            "The texts of counterfact-edit-evidence-1k.json are deliberately false.",
        ),
    )


SOURCES: dict[str, DataSource] = {
    source.name: source for source in (_akew(), _docter(), _elken(), _recoe(), _mquake(), _counterfact())
}


def source_of(name: str) -> DataSource:
    """The sources of a benchmark's files.

    Raises:
        BadSettings: there is no such benchmark, or it needs no files.
    """
    if name == "tinyworld":
        raise BadSettings("tinyworld needs no data: its world is made when it is used.")
    if name not in SOURCES:
        raise BadSettings(f"no data called '{name}': {nearest(name, list(SOURCES))}")
    return SOURCES[name]
