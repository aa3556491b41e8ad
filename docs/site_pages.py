"""Which pages the site has: those of the repository, under their own paths, and the reference.

mkdocs calls ``on_files`` while it builds (``hooks`` in mkdocs.yml). As pages keep their paths,
their links lead to the same places here and in the repository. Nothing is written into the tree.
"""

import ast
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PAGES = (
    "*.md",
    "docs/*.md",
    "docs/*.png",
    "docs/gallery/*.png",
    "docs/terminal/*.svg",
    "docs/*.svg",
    "docs/*.css",
    "docs/*.conf",
    "benchmarks/*.md",
    "benchmarks/*.png",
    "benchmarks/*.csv",
    "experiments/*/README.md",
    "experiments/*/results/**/*.png",
    "experiments/*/results/**/*.csv",
    "experiments/*/results/**/*.md",
    "notebooks/*.ipynb",
)
PACKAGES = (
    "fedsim",
    "fedsim.show.plot",
    "fedsim.tasks",
    "fedsim.federation",
    "fedsim.network",
    "compressors",
    "fedsim.measure.theory",
    "strategies",
)
"""The packages of the reference: a page each, with what their ``__all__`` exports."""
_CODE = re.compile(r"`[^`]+`")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The site's files: the theme's, the repository's pages with what they show, the reference."""
    files_of_site = [file for file in files if file.src_dir != config.docs_dir]
    paths = sorted({path for pattern in PAGES for path in ROOT.glob(pattern)})
    for path in paths:
        name = path.relative_to(ROOT).as_posix()
        files_of_site.append(File.generated(config, name, abs_src_path=str(path)))
    shown: set[str] = set()
    for package in PACKAGES:
        text = reference(package, shown)
        files_of_site.append(File.generated(config, f"reference/{package}.md", content=text))
    return Files(files_of_site)


def reference(package: str, elsewhere: set[str]) -> str:
    """The page of a package: its docstring, then what it exports and ``elsewhere`` has not.

    ``elsewhere`` holds the full names that other pages show; those of this page are added.
    """
    module = ast.parse((ROOT / package.replace(".", "/") / "__init__.py").read_text("utf-8"))
    nodes = list(ast.walk(module))
    names = next(
        ast.literal_eval(node.value)
        for node in nodes
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    places = {
        alias.name: node.module
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    full = [f"{places.get(name, package)}.{name}" for name in sorted(names, key=str.lower)]
    shown = [name for name in full if name not in {*elsewhere, *PACKAGES}]
    elsewhere.update(shown)
    blocks = [f"::: {name}" for name in shown]
    return "\n\n".join([f"# {package}", ast.get_docstring(module) or "", *blocks]) + "\n"


def on_page_markdown(markdown: str, **kwargs: object) -> str:
    """The page with `|` in the code of its tables, where the repository's view wants it escaped."""
    return "\n".join(
        _CODE.sub(lambda match: match[0].replace(r"\|", "|"), line) if line[:1] == "|" else line
        for line in markdown.split("\n")
    )
