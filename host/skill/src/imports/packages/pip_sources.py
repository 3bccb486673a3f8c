"""Where this user's pip gets packages from, as JSON: the hosts that pip itself knows, and the user's settings.

Run by an interpreter of the machine, never by one of the repository, in a folder without any file.
"""
import ast, glob, json, os, subprocess, sys, sysconfig

pip = ["-m", "pip"]
try:
    import pip as _
except ImportError:
    # An interpreter without pip has the one with which it would fill a virtual environment.
    import ensurepip

    folders = [os.path.join(os.path.dirname(ensurepip.__file__), "_bundled"), sysconfig.get_config_var("WHEEL_PKG_DIR")]
    folders.append("/usr/share/python-wheels")
    found = [wheel for folder in folders if folder for wheel in sorted(glob.glob(os.path.join(folder, "pip-*.whl")))]
    sys.path.insert(0, found[-1])
    pip = [os.path.join(found[-1], "pip")]

from pip._internal.models.index import PyPI

listed = subprocess.run(
    [sys.executable, "-I", *pip, "config", "list"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
)
settings = {}
for line in listed.stdout.splitlines():
    key, _, value = line.partition("=")
    try:
        settings[key] = str(ast.literal_eval(value))
    except (SyntaxError, ValueError):
        pass
print(json.dumps({"index": PyPI.netloc, "files": PyPI.file_storage_domain, "settings": settings}))
