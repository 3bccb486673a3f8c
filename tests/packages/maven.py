"""Prepares the Debian source package in this folder for plain Maven and Debian's repository.

  maven.py [BINARY-PACKAGE] [OPTION…]

Debian's builder puts the versions of its repository into a POM by the rules of the package, and looks for those of
plugins without a version itself. Plain Maven needs all of them in the POM. Options go to `.mvn/maven.config`.
"""

import re
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path("/usr/share/maven-repo")
PLUGINS = {
    "maven-compiler-plugin": "org.apache.maven.plugins",
    "maven-surefire-plugin": "org.apache.maven.plugins",
    "maven-javadoc-plugin": "org.apache.maven.plugins",
    "maven-bundle-plugin": "org.apache.felix",
}


def version_of(group: str, artifact: str) -> str | None:
    """The newest version of an artifact in the repository; `debian` means any."""
    folder = REPOSITORY / group.replace(".", "/") / artifact
    versions = [entry.name for entry in folder.iterdir() if entry.is_dir()] if folder.is_dir() else []
    numbers = lambda version: [int(number) for number in re.findall(r"\d+", version)]  # noqa: E731
    return "debian" if "debian" in versions else max(versions, key=numbers, default=None)


def dependencies_of_the_repository(pom: str) -> str:
    """The POM with the versions of the repository, for a package without rules."""
    def replaced(found):
        group, artifact = found[2] or "org.apache.maven.plugins", found[3]
        return f"{found[1]}{version_of(group, artifact) or found[4]}</version>"

    pattern = r"((?:<groupId>([\w.-]+)</groupId>\s*)?<artifactId>([\w.-]+)</artifactId>\s*<version>)([\w.]+)</version>"
    head, start, build = pom.partition("<build>")
    return head + start + re.sub(pattern, replaced, build)


def main():
    package = next((argument for argument in sys.argv[1:] if not argument.startswith("-")), None)
    if package:
        command = ["mh_patchpoms", f"-p{package}", "--debian-build", "--keep-pom-version", f"--maven-repo={REPOSITORY}"]
        subprocess.run(command, check=True)
    pom = Path("pom.xml").read_text()
    if not package:
        pom = dependencies_of_the_repository(pom)
    managed = ""
    for artifact, group in PLUGINS.items():
        version = version_of(group, artifact)
        if version:
            managed += f"<plugin><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version></plugin>"
    if re.search(r"<pluginManagement>\s*<plugins>", pom):
        pom = re.sub(r"(<pluginManagement>\s*<plugins>)", rf"\1{managed}", pom, count=1)
    else:
        pom = pom.replace("<build>", f"<build><pluginManagement><plugins>{managed}</plugins></pluginManagement>", 1)
    Path("pom.xml").write_text(pom)
    Path(".mvn").mkdir(exist_ok=True)
    options = [argument for argument in sys.argv[1:] if argument.startswith("-")]
    Path(".mvn/maven.config").write_text("\n".join(["-s/etc/maven/settings-debian.xml", *options]) + "\n")


if __name__ == "__main__":
    main()
