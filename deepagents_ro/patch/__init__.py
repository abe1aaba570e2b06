"""The edit that makes `dcode tools call-read-only` a command of an installed DCode.

`python -m deepagents_ro.patch apply|check|revert [--site DIR]`

- `apply` adds one dispatch to `deepagents_code/__init__.py`, before its first import, and two lines
  to the help of `dcode tools` in `ui.py` (argparse shows that help itself, and never sees the
  command: `main.py` stays as it is). It changes nothing unless every file is known by its SHA-256.
  A stack below DCode that is not qualified is a warning.
- `check` exits 0 only when the patch is applied, verified and qualified, else 1 with one line for
  each finding: file, version, expected and found SHA-256.
- `revert` gives the published bytes back, also those that another version of this package patched.

Each is safe to repeat, to interrupt between two files, and to run twice at once. The exit status is
1 for a refusal or a failure, with one line on standard error, and 2 for a wrong command line.

`RECORD` is left alone. It is the publisher's statement about the publisher's files: a scanner that
reads it must see that two of them are not as published, pip and uv read its hashes neither for
`check` nor for `uninstall` (which goes by its paths), and a revert then restores all there is.
"""
