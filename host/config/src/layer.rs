//! The layers of the configuration and their order: the environment wins over the file, the file over the default.

/// A layer below the command line, before the path of the file is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueLayer {
    Default,
    File,
    Environment(&'static str),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sourced<T> {
    pub(super) value: T,
    pub(super) layer: ValueLayer,
}

/// The value of the first layer that has one.
pub(super) fn first_layer<T>(
    variable: Option<(&'static str, T)>,
    file: Option<T>,
    default: impl FnOnce() -> Option<T>,
) -> Option<Sourced<T>> {
    let sourced = |value, layer| Sourced { value, layer };
    variable
        .map(|(name, value)| sourced(value, ValueLayer::Environment(name)))
        .or_else(|| file.map(|value| sourced(value, ValueLayer::File)))
        .or_else(|| default().map(|value| sourced(value, ValueLayer::Default)))
}
