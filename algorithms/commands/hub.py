"""What `chess-lab push` and `chess-lab pull` say to the Hugging Face Hub, through its own library.

That library is imported inside the functions: a folder needs none.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from algorithms.commands.result_files import PLACE_HELP
from algorithms.run_folder.atomic_files import cut
from algorithms.run_folder.bundle import BundleError, verified

_REPO = re.compile(r"[\w.-]+/[\w.-]+")
_MADE_BY_THE_HUB = ".gitattributes"


def folder_of(place: str) -> Path | None:
    """The folder that an argument names; None where it names a repository of the Hub.

    Raises:
        BundleError: it is neither.
    """
    if place in (".", "..") or place.startswith(("./", "../", "/", "~")):
        return Path(place).expanduser()
    if not _REPO.fullmatch(place):
        raise BundleError(f"{place!r} names no place: give {PLACE_HELP}")
    return None


def upload(repo: str, contents: Mapping[str, bytes], *, private: bool) -> str:
    """Address of the commit that puts a bundle into a repository, which is made where there is none.

    Args:
        repo: user/name.
        contents: files of a bundle.
        private: whether a repository that is made now is.

    Raises:
        BundleError: there is no token, the repository holds other files, or the Hub refuses.
        ModuleNotFoundError: the library is not installed.
    """
    from huggingface_hub import CommitOperationAdd, HfApi, get_token

    if get_token() is None:
        raise BundleError(
            "no token of the Hub is known here: make one with the right to write in its settings, then "
            "run `hf auth login` or set HF_TOKEN"
        )
    api = HfApi()
    with _refusals(repo):
        api.create_repo(repo, private=private or None, exist_ok=True)
        if others := sorted(_sizes(api, repo, "main").keys() - contents.keys()):
            raise BundleError(
                f"{repo} holds {cut(', '.join(others))}, which a policy does not have, and nothing was "
                "sent: give another name"
            )
        operations = [
            CommitOperationAdd(path_in_repo=name, path_or_fileobj=data)
            for name, data in contents.items()
        ]
        done = api.create_commit(repo, operations, commit_message="Add a policy of chess-lab push")
    return str(done.commit_url)


def download(repo: str) -> dict[str, bytes]:
    """The files of the bundle in a repository, as of `verified`.

    Args:
        repo: user/name.

    Raises:
        BundleError: as of `verified`, or the Hub does not give them.
        ModuleNotFoundError: the library is not installed.
    """
    from huggingface_hub import HfApi

    api = HfApi()
    with tempfile.TemporaryDirectory() as folder, _refusals(repo):
        commit = str(api.repo_info(repo).sha)  # all files of one commit, whoever pushes meanwhile

        def read(name: str) -> bytes:
            path = api.hf_hub_download(repo, name, revision=commit, local_dir=folder)
            return Path(path).read_bytes()

        return verified(_sizes(api, repo, commit), read, repo)


def _sizes(api: Any, repo: str, commit: str) -> dict[str, int]:
    """Name -> bytes of all files, but for the one that the Hub itself puts into every repository."""
    tree = api.list_repo_tree(repo, revision=commit, recursive=True)
    sizes = {each.path: getattr(each, "size", 0) for each in tree}  # a folder has no size
    sizes.pop(_MADE_BY_THE_HUB, None)
    return sizes


@contextlib.contextmanager
def _refusals(repo: str) -> Iterator[None]:
    """Makes an error of the library one for people, and keeps its progress bars off the terminal.

    Raises:
        BundleError: in place of the library's.
    """
    from huggingface_hub import errors
    from huggingface_hub.utils import disable_progress_bars

    disable_progress_bars()
    try:
        yield
    except errors.RepositoryNotFoundError as error:
        raise BundleError(
            f"{repo} is not on the Hub, or it is private and the token (`hf auth login`, HF_TOKEN) may not "
            "read it: look at the name"
        ) from error
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        why = (
            "the token has not the right to do that"
            if status in (401, 403)
            else "try it again later"
        )
        said = cut(error.server_message or str(error).partition("\n")[0])
        raise BundleError(f"the Hub refused {repo} with status {status} ({said}): {why}") from error
    except (errors.HTTPError, errors.XetDownloadError, OSError, ValueError, RuntimeError) as error:
        if isinstance(error, BundleError):
            raise
        raise BundleError(
            f"{repo} was not transferred ({cut(' '.join(str(error).split()) or type(error).__name__)}): "
            "look at the connection, and repeat the command"
        ) from error
