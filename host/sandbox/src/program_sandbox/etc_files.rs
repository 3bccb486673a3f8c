//! Entries of `/etc` that a run sees: those that programs need to start, and none that may hold keys.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// Entries that programs need to work at all. None of these files is secret. Directories with keys are left out, and so
/// are settings of the machine's owner, such as Maven's `settings.xml`.
const ETC: &[&str] = &[
    "alternatives",
    "bash.bashrc",
    "ca-certificates",
    "ca-certificates.conf",
    "debian_version",
    "fonts",
    "gai.conf",
    "host.conf",
    "inputrc",
    "java-11-openjdk",
    "java-17-openjdk",
    "java-21-openjdk",
    "java-25-openjdk",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "ld-musl-x86_64.path",
    "locale.alias",
    "locale.conf",
    "localtime",
    "magic",
    "maven/logging",
    "maven/m2-debian.conf",
    "maven/m2.conf",
    "maven/settings-debian.xml",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "pki/ca-trust",
    "pki/tls/cert.pem",
    "pki/tls/certs",
    "pki/tls/openssl.cnf",
    "profile",
    "protocols",
    "python3",
    "python3.10",
    "python3.11",
    "python3.12",
    "python3.13",
    "python3.14",
    "rpc",
    "services",
    "shells",
    "ssl/cert.pem",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
    "xdg",
];

/// Largest settings file of PHP that is read. Those of the distributions have some hundred bytes.
const PHP_FILE_BYTES_MAX: u64 = 16 << 10;

/// Entries that are mounted.
pub(super) fn list_mounted() -> impl Iterator<Item = PathBuf> {
    ETC.iter().map(|name| Path::new("/etc").join(name))
}

/// Everything of `/etc` that may be read where nothing can be mounted. A folder of PHP's settings is among it only if
/// all of its files may be shown.
pub(super) fn list_readable() -> impl Iterator<Item = PathBuf> {
    let beside = ["passwd", "group", "hosts", "hostname"];
    let whole = php_settings(Path::new("/etc"))
        .into_iter()
        .filter(|settings| settings.is_whole);
    let php = whole.flat_map(|settings| {
        let files = fs::read_dir(&settings.folder).into_iter().flatten().flatten();
        let real = files.filter_map(|file| file.path().canonicalize().ok());
        real.chain([settings.folder.clone()]).collect::<Vec<_>>()
    });
    list_mounted()
        .chain(beside.map(|name| Path::new("/etc").join(name)))
        .chain(php)
}

/// Files of a folder through which PHP loads its extensions.
pub(super) struct PhpSettings {
    pub(super) folder: PathBuf,
    pub(super) files: Vec<(OsString, String)>,
    /// True if all of the folder's files are in `files`.
    pub(super) is_whole: bool,
}

/// Reads PHP's settings for the command line. The distributions keep one file for each extension, and without them
/// PHPUnit does not start. A file that sets more than switches may hold a license key or a password, and is left out.
pub(super) fn php_settings(etc: &Path) -> Vec<PhpSettings> {
    let versions = fs::read_dir(etc.join("php")).into_iter().flatten().flatten();
    let folders = versions.map(|version| version.path().join("cli/conf.d"));
    let folders = folders.chain([etc.join("php.d")]).filter(|folder| folder.is_dir());
    folders.map(php_folder).collect()
}

fn php_folder(folder: PathBuf) -> PhpSettings {
    let (mut files, mut is_whole) = (Vec::new(), true);
    for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_small = fs::metadata(&path).is_ok_and(|metadata| metadata.len() <= PHP_FILE_BYTES_MAX);
        let text = fs::read_to_string(&path)
            .ok()
            .filter(|text| is_small && has_only_switches(text));
        match text {
            Some(text) => files.push((entry.file_name(), text)),
            None => is_whole = false,
        }
    }
    PhpSettings {
        folder,
        files,
        is_whole,
    }
}

/// True if the settings only load extensions, or set numbers, yes or no.
fn has_only_switches(text: &str) -> bool {
    text.lines().map(str::trim).all(|line| {
        if line.is_empty() || line.starts_with([';', '[']) {
            return true;
        }
        let Some((key, value)) = line.split_once('=') else {
            return false;
        };
        let value = value.split(';').next().unwrap_or_default().trim();
        let is_extension = matches!(key.trim(), "extension" | "zend_extension");
        let is_number = value.len() <= 6 && value.bytes().all(|byte| byte.is_ascii_digit());
        is_extension || is_number || ["on", "off", "yes", "no", "true", "false"].contains(&&*value.to_ascii_lowercase())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn php_loads_its_extensions_and_no_license_key_is_shown() {
        let etc = tempfile::tempdir().expect("a folder");
        let folder = etc.path().join("php/8.2/cli/conf.d");
        fs::create_dir_all(&folder).expect("folders can be made");
        for (name, text) in [
            (
                "10-opcache.ini",
                "; priority=10\nzend_extension=opcache.so\nopcache.jit=off\n",
            ),
            ("20-dom.ini", "extension=dom.so"),
            ("30-agent.ini", "extension=agent.so\nagent.license=\"hunter2\"\n"),
            ("40-note.ini", "hunter2\n"),
        ] {
            fs::write(folder.join(name), text).expect("files can be written");
        }
        let [settings] = &php_settings(etc.path())[..] else {
            panic!("there is one folder");
        };
        let mut names: Vec<_> = settings.files.iter().map(|(name, _)| name.clone()).collect();
        names.sort();
        assert_eq!(names, ["10-opcache.ini", "20-dom.ini"]);
        assert!(!settings.is_whole);
        fs::remove_file(folder.join("30-agent.ini")).expect("it is there");
        fs::remove_file(folder.join("40-note.ini")).expect("it is there");
        assert!(php_settings(etc.path())[0].is_whole);
    }
}
