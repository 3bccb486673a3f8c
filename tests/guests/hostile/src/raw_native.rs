//! Natively there is nothing to attack.

pub(crate) fn symlink(_: &str, _: &str) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

pub(crate) fn list() -> std::io::Result<String> {
    Err(std::io::ErrorKind::Unsupported.into())
}

pub(crate) fn read(_: &str) -> std::io::Result<String> {
    Err(std::io::ErrorKind::Unsupported.into())
}

pub(crate) fn create(_: &str) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

pub(crate) fn wait_for_input() {}

pub(crate) fn tcp_socket() -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

pub(crate) fn udp_socket() -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

pub(crate) fn random(_: &mut [u8]) {}

pub(crate) fn wait(_: u64) {}

pub(crate) fn hoard_selections(_: u64) -> Result<(), String> {
    Err("unsupported".to_owned())
}

pub(crate) fn hoard(_: u64) {}
