"""What a schema cannot say: archives among all bytes, and sets of files that have an index."""

import gzip
import io
import itertools
import json
import os
import random
import re
import tarfile
import zipfile

import schemathesis
from hypothesis import strategies as st

PAGES = st.text(min_size=1, max_size=200).map(lambda text: text.encode("utf-8", "replace"))


def tar_gz(page: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        entry = tarfile.TarInfo("index.html")
        entry.size = len(page)
        archive.addfile(entry, io.BytesIO(page))
    return gzip.compress(buffer.getvalue(), mtime=0)


def zipped(page: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(zipfile.ZipInfo("index.html"), page)
    return buffer.getvalue()


schemathesis.openapi.media_type("application/gzip", PAGES.map(tar_gz))
schemathesis.openapi.media_type("application/zip", PAGES.map(zipped))
schemathesis.openapi.media_type("application/octet-stream", PAGES.map(tar_gz))


@schemathesis.hook("map_body").apply_to(operation_id="deploy_files")
def with_index(_context, body):
    """Names the first file of a set index.html, unless its path is what is wrong with the set."""
    files = body.get("files") if isinstance(body, dict) else None
    first = files[0] if isinstance(files, list) and files else None
    path = first.get("path") if isinstance(first, dict) else None
    if isinstance(path, str) and re.fullmatch(r"[^\\\x00-\x1f\x7f]{1,1024}", path):
        first["path"] = "index.html"
    return body


@schemathesis.hook("before_call").apply_to(operation_id="get_site_stats_live")
def without_stream(_context, case, _kwargs):
    """Asks for one answer, because the stream lasts for an hour. A value of follow that has to be refused stays."""
    query = dict(case.query or {})
    if query.get("follow") in (None, True, "true"):
        case.query = {**query, "follow": "false"}


FORMS = json.loads(os.environ.get("FUZZ_FORMS", "[]"))
ADDRESSES = itertools.count()


@schemathesis.hook("before_call").apply_to(operation_id="submit_form")
def as_visitor(_context, case, _kwargs):
    """Most posts come from a page of the site, each from an address of its own, or else the rates would refuse nearly all of them."""
    number = next(ADDRESSES)
    case.headers["X-Forwarded-For"] = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    form = random.Random(number).choice(FORMS)
    if number % 10 > 0 and "Origin" in case.headers:
        case.path_parameters["site_id"] = form["site_id"]
        case.headers["Origin"] = form["origin"]
