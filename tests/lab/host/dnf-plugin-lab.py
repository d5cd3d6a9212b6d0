"""dnf plugin of the test lab: each transaction and metadata download is in the action log, whoever starts it."""

import subprocess

import dnf


class Lab(dnf.Plugin):
    name = "lab"

    def pre_transaction(self):
        words = [f"{item.action_name}:{item.pkg}" for item in self.base.transaction]
        subprocess.run(["/opt/lab/bin/log-action", "package-change", "dnf-transaction", *words], check=False)
