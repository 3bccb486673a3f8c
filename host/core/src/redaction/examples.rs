//! Examples of keys, written as forms: `«ghp_[A-Za-z0-9]{36}»` is a key of which 36 characters are drawn when the test
//! runs, so that nothing that watches over repositories takes it for one.

/// An example with the keys in it.
pub(super) struct RuleExample {
    pub(super) text: String,
    pub(super) keys: Vec<String>,
}

/// Characters that look drawn by lot, always the same for one seed.
pub(super) fn drawn(seed: u64, length: usize, alphabet: &str) -> String {
    let letters: Vec<char> = alphabet.chars().collect();
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).expect("31 bits") % letters.len()
    };
    (0..length).map(|_| letters[next()]).collect()
}

/// The characters of a set such as `a-f0-9_`.
fn alphabet(set: &str) -> String {
    let chars: Vec<char> = set.chars().collect();
    let mut all = String::new();
    let mut at = 0;
    while at < chars.len() {
        match chars.get(at + 1..at + 3) {
            Some(['-', last]) => {
                all.extend(chars[at]..=*last);
                at += 3;
            }
            _ => {
                all.push(chars[at]);
                at += 1;
            }
        }
    }
    all
}

/// The form with every `[set]{n}` drawn.
pub(super) fn expand(form: &str, mut seed: u64) -> String {
    let mut out = String::new();
    let mut rest = form;
    while let Some(open) = rest.find('[') {
        let set = rest[open + 1..].split_once("]{").and_then(|(set, more)| {
            let (count, after) = more.split_once('}')?;
            (!set.contains('[')).then_some((set, count.parse::<usize>().ok()?, after))
        });
        let Some((set, count, after)) = set else {
            out.push_str(&rest[..=open]);
            rest = &rest[open + 1..];
            continue;
        };
        out.push_str(&rest[..open]);
        seed += 1;
        out.push_str(&drawn(seed, count, &alphabet(set)));
        rest = after;
    }
    out + rest
}

/// The example of a form with `«»` around its keys.
pub(super) fn example(form: &str, seed: u64) -> RuleExample {
    let whole = expand(form, seed);
    let keys = whole.split('«').skip(1).filter_map(|rest| rest.split_once('»'));
    RuleExample {
        keys: keys.map(|(key, _)| key.to_owned()).collect(),
        text: whole.replace(['«', '»'], ""),
    }
}
