"""`python -I -m deepagents_ro TOOL --json`: the call without DCode's console script."""

from deepagents_ro.command import module_main

if __name__ == "__main__":
    module_main()
