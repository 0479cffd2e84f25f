"""What MkDocs calls: pages that are made from the code, links between the repository and the site, and llms.txt."""

import posixpath
import re
import subprocess
import tomllib
from pathlib import Path

import architecture
import claims
import commands
import curves
import gallery
import mathematics
import message_life
import published_numbers
import reference
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation

ROOT = Path(__file__).parents[1]

COPIES = {
    "published.md": "results/README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
}
"""Pages of the site that are files of the repository."""

_VECTORS = ROOT / "src" / "turnout" / "vectors"

VECTORS = {f"vectors/{path.name}": path for path in [*sorted((_VECTORS / "files").glob("*.json")), _VECTORS / "schema.json"]}
"""Files of the site: the test vectors, and their schema."""


def on_config(config):
    """Put the pages of the reference into the navigation, name the version, and start what takes longest."""
    curves.started()
    config.copyright = build()
    section = next(entry["Reference"] for entry in config.nav if "Reference" in entry)
    section.append({"Python": reference.navigation()})
    section = next(entry["Explanations"] for entry in config.nav if "Explanations" in entry)
    section.append({"Gallery": gallery.navigation()})
    return config


def build() -> str:
    """Return what the site is about, for the foot of every page: the version, and the commit where there is one."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    command = ["git", "-C", str(ROOT), "rev-parse", "--short=10", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True).stdout.strip() if (ROOT / ".git").exists() else ""
    return f"turnout {version}{f', commit {commit}' if commit else ''}"


def on_files(files: Files, config) -> Files:
    """Add the pages that are not in docs/."""
    pages = {page: (ROOT / file).read_text(encoding="utf-8") for page, file in COPIES.items()}
    pages["contributing.md"] += architecture.section()
    for page, text in {**pages, "commands.md": commands.page(), **gallery.pages(), **reference.pages()}.items():
        files.append(File.generated(config, page, content=text))
    files.append(File.generated(config, architecture.PICTURE, content=architecture.picture()))
    for name, path in VECTORS.items():
        files.append(File.generated(config, name, abs_src_path=str(path)))
    for picture, path in gallery.pictures().items():
        files.append(File.generated(config, picture, abs_src_path=str(path)))
    return files


def on_page_markdown(text: str, page, config, files: Files) -> str:
    """Put in tables of results, and lead relative links to the page of a file, or else to the file in the repository."""
    source = COPIES.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    made_of = {file: name for name, file in COPIES.items()}
    made_of |= {f"results/{folder.name}/summary.json": gallery.page_of(folder) for folder in gallery.folders()}
    made_of |= reference.by_source()
    made_of |= {str(path.relative_to(ROOT)): name for name, path in VECTORS.items()}

    def replaced(match: re.Match) -> str:
        target, hash_, anchor = match[3].partition("#")
        if not target or "://" in target:
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        here = made_of.get(path, path.removeprefix("docs/"))
        if files.get_file_from_path(here) is not None:
            target = posixpath.relpath(here, posixpath.dirname(page.file.src_uri) or ".")
        elif (ROOT / path).exists():
            kind = "tree" if (ROOT / path).is_dir() else "raw" if match[1] == "!" else "blob"
            target = f"{config.repo_url.rstrip('/')}/{kind}/main/{path}"
        return f"{match[1]}[{match[2]}]({target}{hash_}{anchor})"

    return re.sub(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)", replaced, published_numbers.inserted(claims.inserted(text)))


def on_page_content(content: str, page, config, files: Files) -> str:
    """Set formulas as such, draw the life of a message, and frame the tables of claims."""
    if page.file.src_uri == "claims.md":
        content = claims.framed(content)
    return message_life.inserted(mathematics.displayed(content))


def on_post_page(html: str, page, config) -> str:
    """Draw measured curves, and name the dialog of the search, which the theme leaves without a name."""
    return curves.inserted(html).replace('role="dialog"', 'role="dialog" aria-label="Search"')


def on_nav(nav: Navigation, config, files: Files) -> Navigation:
    """Keep the pages in the order of the navigation, for llms.txt."""
    config.extra["pages"] = nav.pages
    return nav


def first_sentence(text: str) -> str:
    """Return the first sentence of a page that is neither code, nor a heading, nor in a list or table."""
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    paragraph = re.search(r"^(?:\w|`|\[)(?:.|\n(?!\n))*", prose, flags=re.MULTILINE)
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(paragraph[0].split())) if paragraph else ""
    return re.split(r"(?<=\.)\s", plain)[0]


def on_post_build(config) -> None:
    """Write llms.txt: every page with its first sentence (llmstxt.org)."""
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", "", "## Pages", ""]
    for page in config.extra["pages"]:
        lines.append(f"- [{page.title}]({page.url}): {first_sentence(page.markdown)}")
    (Path(config.site_dir) / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
