//! Authors of commits whose words count as the user's: the user, and the team of the user's configuration.
//!
//! Any author can claim any address in a commit. The rule only keeps the words of strangers who do not forge an address
//! from counting as the user's.

use serde::{Deserialize, Serialize};

use crate::api::{ErrorKind, Problem};

/// The user's team, as `[policy] team` of the user's configuration names it. The default has no member.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Team {
    /// In lower case: an address, or `@` with a domain.
    members: Vec<String>,
}

impl Team {
    /// Reads addresses (`ada@example.org`) and domains (`*@example.org`).
    ///
    /// # Errors
    ///
    /// Anything else is refused.
    pub fn parse(members: &[String]) -> Result<Self, Problem> {
        let parse = |member: &String| {
            let wanted = fold_email(member.strip_prefix('*').unwrap_or(member));
            let is_domain = member.starts_with("*@");
            match wanted.split_once('@') {
                Some((name, domain))
                    if name.is_empty() == is_domain
                        && !domain.is_empty()
                        && !wanted.contains(|letter: char| letter.is_whitespace() || "*<>".contains(letter))
                        && !domain.contains('@') =>
                {
                    Ok(wanted)
                }
                _ => Err(Problem::new(
                    ErrorKind::ConfigInvalid,
                    format!("`{member}` in `[policy] team` is neither an address nor a domain"),
                )
                .with_hint("write `ada@example.org` for one author, `*@example.org` for all of a domain")),
            }
        };
        let members = members.iter().map(parse).collect::<Result<_, _>>()?;
        Ok(Self { members })
    }

    /// True if the author with the address `email` is the user or a member of the team. `own` are the user's addresses
    /// from git's configuration (`user.email`). Case is ignored, and an empty address never matches.
    pub fn includes(&self, email: &str, own: &[String]) -> bool {
        let email = fold_email(email);
        let Some(at) = email.rfind('@').filter(|&at| at > 0) else {
            return !email.is_empty() && own.iter().any(|own| fold_email(own) == email);
        };
        let is_member = |member: &String| *member == email || *member == email[at..];
        own.iter().any(|own| fold_email(own) == email) || self.members.iter().any(is_member)
    }
}

fn fold_email(email: &str) -> String {
    email.trim().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn the_user_and_the_team_are_known_by_their_whole_addresses() {
        let team = Team::parse(&list(&["*@Example.org", "Grace@home.example"])).expect("both are valid");
        let own = list(&["ada@laptop", "1+ada@users.noreply.example.com", ""]);
        for email in [
            "ada@laptop",
            " Ada@Laptop ",
            "1+ada@users.noreply.example.com",
            "bob@example.org",
            "BOB@EXAMPLE.ORG",
            "grace@home.example",
        ] {
            assert!(team.includes(email, &own), "{email}");
        }
        for email in [
            "",
            "@",
            "@example.org",
            "example.org",
            "bob@example.org.evil",
            "bob@sub.example.org",
            "bob@evilexample.org",
            "bob@example.org@evil",
            "2+ada@users.noreply.example.com",
            "ada@laptop.evil",
            "not.grace@home.example",
        ] {
            assert!(!team.includes(email, &own), "{email}");
        }
        assert!(!Team::default().includes("bob@example.org", &own));
        assert!(!team.includes("", &[]));
    }

    #[test]
    fn a_team_of_everybody_or_of_no_addresses_is_refused() {
        for member in [
            "",
            "*",
            "@example.org",
            "*@",
            "*@*",
            "bob",
            "bob@",
            "a*@example.org",
            "*@a@b",
            "Bob <b@c>",
        ] {
            let problem = Team::parse(&list(&[member])).expect_err(member);
            assert_eq!(
                problem.message,
                format!("`{member}` in `[policy] team` is neither an address nor a domain")
            );
        }
    }
}
