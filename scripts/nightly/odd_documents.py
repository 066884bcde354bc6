"""Reads spoiled PDF files, odd pages and texts of many scripts as `emend build questions` does.

    python -m scripts.nightly.odd_documents --pdfs 400 --pages 60 --texts 30

Each document has to be read, or be left out with a reason, in at most two seconds of the processor; of a text no letter
may be lost.
"""

import argparse
import io
import random
import sys
import tempfile
import time
from collections import Counter
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple

from emend.evals.construction.sources.document_reader import DocumentReader
from emend.evals.construction.sources.documents import LONGEST, divide, text_of
from emend.memory.errors import BadData

TAIL = "<p>The keeper of Tarn Lock is Luis Tarnez.</p>"
SECONDS = 2.0
# Two sentences in each script, none of which ends with a Western full stop.
SCRIPTS = {
    "Hindi": "नदी के पास एक पुराना घर है। उसमें तीन लोग रहते हैं। ",
    "Bengali": "নদীর পাশে একটি পুরানো বাড়ি আছে। সেখানে তিনজন থাকে। ",
    "Thai": "มีบ้านเก่าอยู่ริมแม่น้ำ มีคนสามคนอาศัยอยู่ที่นั่น ",
    "Khmer": "មានផ្ទះចាស់មួយនៅក្បែរទន្លេ។ មនុស្សបីនាក់រស់នៅទីនោះ។ ",
    "Burmese": "မြစ်နားမှာ အိမ်ဟောင်းတစ်လုံးရှိတယ်။ လူသုံးယောက်နေတယ်။ ",
    "Arabic": "أين البيت القديم؟ يسكن فيه ثلاثة أشخاص؟ ",
    "Urdu": "دریا کے پاس ایک پرانا گھر ہے۔ وہاں تین لوگ رہتے ہیں۔ ",
    "Chinese": "河边有一座老房子。那里住着三个人。",
    "Japanese": "川のそばに古い家がある。そこには三人が住んでいる。",
    "Amharic": "በወንዙ አጠገብ አሮጌ ቤት አለ። ሦስት ሰዎች ይኖራሉ። ",
    "Armenian": "Գետի մոտ կա մի հին տուն։ Այնտեղ ապրում է երեք մարդ։ ",
    "Tibetan": "གཙང་པོའི་འགྲམ་དུ་ཁང་པ་རྙིང་པ་ཞིག་ཡོད། དེར་མི་གསུམ་སྡོད། ",
}


class Tally(NamedTuple):
    """Counts of outcomes, the longest processor time for one document in seconds, and problems."""

    outcomes: Counter[str]
    longest: float
    problems: list[str]


def small_pdf() -> bytes:
    """Return a PDF of two pages with text and a compressed stream."""
    from pypdf import PdfWriter
    from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

    writer = PdfWriter()
    for number in range(2):
        page = writer.add_blank_page(width=200, height=200)
        stream = DecodedStreamObject()
        stream.set_data(b"BT /F1 12 Tf 10 100 Td (The keeper of Tarn Lock is Luis %d) Tj ET" % number)
        font = DictionaryObject(
            {
                NameObject("/Type"): NameObject("/Font"),
                NameObject("/Subtype"): NameObject("/Type1"),
                NameObject("/BaseFont"): NameObject("/Helvetica"),
            }
        )
        fonts = DictionaryObject({NameObject("/F1"): font})
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
        page[NameObject("/Contents")] = writer._add_object(stream.flate_encode() if number else stream)
    target = io.BytesIO()
    writer.write(target)
    return target.getvalue()


def spoiled(content: bytes, rng: random.Random) -> bytes:
    """Return a PDF with bytes, numbers or names changed, or parts repeated or left out."""
    raw = bytearray(content)
    for _ in range(rng.choice((1, 1, 3, 20))):
        position, kind = rng.randrange(len(raw)), rng.randrange(5)
        if kind == 0:
            raw[position] = rng.randrange(256)
        elif kind == 1:
            del raw[position : position + rng.choice((1, 5, 60))]
        elif kind == 2:
            raw[position:position] = raw[position : position + rng.choice((1, 5, 60))]
        elif kind == 3:
            digits = [index for index, byte in enumerate(raw) if chr(byte).isdigit()]
            at = rng.choice(digits or [position])
            raw[at : at + 1] = rng.choice((b"0", b"-1", b"9" * 12, b"1.5", b"null", b"[]"))
        else:
            raw[position:position] = rng.choice((b"<<", b">>", b"/Filter/LZWDecode", b"/Type/Pages", b"(", b"R", b"[["))
    return bytes(raw)


def odd_pages() -> dict[str, bytes]:
    """Return pages, by name, that may slow down or break a parser."""
    size = 120_000
    pages = {
        "comment": "<!--" * (size // 4),
        "less than": "<" * size + " ",
        "attribute": "<a a='a='" * (size // 9),
        "ampersand": "&" * size + " ",
        "long number": "&#" + "9" * 5000 + ";",
        "negative number": "&#-1;&#x110000;&#xd800;",
        "marked section": "<![" * (size // 3),
        "deep blocks": "<div>" * (size // 5),
        "deep marks": "<b><i>" * (size // 6),
        "end tags": "</p>" * (size // 4),
        "tables": "<table><tr><td>" * (size // 15),
        "attributes": "<p " + " ".join(f"a{number}=1" for number in range(size // 8)) + ">",
        "script": "<script>" + "x<" * (size // 2),
        "style": "<style>" + "<p>" * (size // 3),
        "textarea": "<textarea>" + "</b>" * (size // 4),
        "title": "<title>" + "<" * size,
        "nul": "a\0b<p>\0</p>",
        "controls": "".join(map(chr, range(1, 32))),
        "declaration": '<?xml version="1.0" encoding="utf-16"?><!DOCTYPE a [<!ENTITY b "&b;&b;">]>',
        "charset": '<meta charset="utf-7"><meta charset="nothing">',
        "template": "<template><p>x</template>",
        "noscript": "<noscript>x</noscript>" * 200,
        "base": '<base href="file:///etc/passwd"><iframe src="file:///etc/passwd"></iframe>',
        "frames": "<frameset>" * 300,
        "select": "<select><option>" * 3000,
        "quotes": '<a href="' + "'" * 500 + '">',
        "spaces": "<p" + " " * size + ">",
        "lines": "\n" * size,
        "letters": "e\u0301" * (size // 2),
        "unknown": "".join(f"<x{number}>" for number in range(9000)),
    }
    return {name: (page + TAIL).encode() for name, page in pages.items()}


def read_pages(count: int, reader: DocumentReader) -> Tally:
    """Read odd pages, then corrupted versions of them."""
    rng, pages = random.Random(7), odd_pages()
    contents = list(pages.items())
    contents += [(f"spoiled {name}", spoiled(pages[name][-4000:], rng)) for name in pages]
    return _read("html", list(islice(cycle(contents), count)), reader)


def read_pdfs(count: int, reader: DocumentReader) -> Tally:
    """Read corrupted PDF files."""
    rng, whole = random.Random(400), small_pdf()
    return _read("pdf", [(f"mutant {number}", spoiled(whole, rng)) for number in range(count)], reader)


def _read(form: str, documents: list[tuple[str, bytes]], reader: DocumentReader) -> Tally:
    outcomes, longest, problems = Counter[str](), 0.0, list[str]()
    for name, content in documents:
        before = _child_seconds(reader)
        try:
            reader.read(form, content)
            outcome = "read"
        except BadData as error:
            outcome = f"left out: {str(error).partition(':')[0]}"
        except Exception as error:
            outcome = type(error).__name__
            problems.append(f"{form} {name}: {outcome}: {error}")
        outcomes[outcome] += 1
        spent = max(0.0, _child_seconds(reader) - before)
        longest = max(longest, spent)
        if spent > SECONDS:
            problems.append(f"{form} {name}: {spent:.1f} s")
    return Tally(outcomes, longest, problems)


def _child_seconds(reader: DocumentReader) -> float:
    """Return processor time of the reader's child so far; 0 without one, or off Linux."""
    process = reader._process
    if process is None:
        return 0.0
    try:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / 100


def read_texts(count: int, reader: DocumentReader) -> Tally:
    """Split long paragraphs in each script into passages."""
    rng, outcomes, longest, problems = random.Random(30), Counter[str](), 0.0, list[str]()
    with tempfile.TemporaryDirectory() as folder:
        for name in islice(cycle(SCRIPTS), count):
            whole = SCRIPTS[name] * rng.randint(100, 3000)
            if rng.random() < 0.3:
                whole = "".join(whole.split())
            path = Path(folder, "text.md")
            path.write_text(whole, "utf-8")
            start = time.process_time()
            parts = divide(text_of(path, reader))
            longest = max(longest, time.process_time() - start)
            lost = len("".join(whole.split())) - len("".join("".join(parts).split()))
            outcomes["read"] += 1
            if lost or max(map(len, parts)) > LONGEST:
                problems.append(f"{name}: {lost} characters lost")
    return Tally(outcomes, longest, problems)


def main() -> int:
    """Print the counts; return 1 if anything went wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pdfs", type=int, default=400)
    parser.add_argument("--pages", type=int, default=60)
    parser.add_argument("--texts", type=int, default=30)
    options = parser.parse_args()
    with DocumentReader() as reader:
        tallies = {
            f"{options.pdfs} spoiled PDF files": read_pdfs(options.pdfs, reader),
            f"{options.pages} odd pages": read_pages(options.pages, reader),
            f"{options.texts} texts in {len(SCRIPTS)} scripts": read_texts(options.texts, reader),
        }
    for name, tally in tallies.items():
        counts = ", ".join(f"{count} {outcome}" for outcome, count in tally.outcomes.most_common())
        sys.stdout.write(f"{name}: {counts}; at most {tally.longest:.2f} s; {len(tally.problems)} problems\n")
        sys.stdout.writelines(f"    {problem}\n" for problem in tally.problems)
    bad, longest = (
        sum(len(each.problems) for each in tallies.values()),
        max(each.longest for each in tallies.values()),
    )
    sys.stdout.write(f"{', '.join(tallies)}: {bad} problems, at most {longest:.2f} s of the processor\n")
    return int(bool(bad))


if __name__ == "__main__":
    raise SystemExit(main())
