//! Small helpers for answers: sizes, bounded text.

/// A size for people: `512 B`, `1.5 kB`, `45.2 MB` (decimal units).
pub fn human_size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1000.0;
    let mut unit = 0;
    while value >= 999.95 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::human_size;

    #[test]
    fn sizes_change_unit_where_they_would_round_up() {
        let shown: Vec<String> = [0, 999, 1000, 999_949, 999_950, 45_200_000].map(human_size).into();
        assert_eq!(shown, ["0 B", "999 B", "1.0 kB", "999.9 kB", "1.0 MB", "45.2 MB"]);
    }
}
