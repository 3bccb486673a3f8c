//! The money of a batch, shared by its sessions. The maximum cost of a session is reserved before it begins, so all of
//! them together never exceed the budget.

use tool_core::api::Dollars;

/// A session is not started with less than an equal share divided by this: it could not send one request.
const USEFUL_SHARE: u64 = 100;

/// Smallest bound of a session, in billionths of a dollar.
const BOUND_NANOS_MIN: u64 = 1_000;

#[derive(Debug)]
pub(super) struct SharedBudget {
    left_nanos: u64,
    /// Smallest part that is worth a session.
    useful_nanos: u64,
}

impl SharedBudget {
    /// A budget of which `spent` is gone, for so many items.
    pub(super) fn new(whole: Dollars, spent: Dollars, items: usize) -> Self {
        let equal_part = whole.nanos() / (items as u64).max(1);
        Self {
            left_nanos: whole.nanos().saturating_sub(spent.nanos()),
            useful_nanos: (equal_part / USEFUL_SHARE).max(BOUND_NANOS_MIN),
        }
    }

    /// Puts money aside for one session, of `slots` that may still begin beside the running ones. Nothing where too
    /// little is left.
    pub(super) fn reserve(&mut self, slots: usize) -> Option<Dollars> {
        let bound = self.left_nanos / (slots as u64).max(1);
        if bound < self.useful_nanos {
            return None;
        }
        self.left_nanos -= bound;
        Some(Dollars::from_nanos(bound))
    }

    /// Frees a bound that was too small for one request, and starts no session with so little again.
    pub(super) fn refuse(&mut self, bound: Dollars) {
        self.release(bound, Some(Dollars::default()));
        self.useful_nanos = self.useful_nanos.max(bound.nanos().saturating_add(1));
    }

    /// Gives back what a session did not spend. A session whose cost is not known has spent all of it.
    pub(super) fn release(&mut self, bound: Dollars, cost: Option<Dollars>) {
        let cost = cost.unwrap_or(bound);
        self.left_nanos = self
            .left_nanos
            .saturating_add(bound.nanos())
            .saturating_sub(cost.nanos());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOLLAR: u64 = 1_000_000_000;

    #[test]
    fn sessions_together_never_get_more_than_the_whole() {
        let whole = Dollars::from_nanos(2 * DOLLAR);
        let mut budget = SharedBudget::new(whole, Dollars::from_nanos(DOLLAR), 10);
        let first = budget.reserve(2).expect("there is money");
        let second = budget.reserve(1).expect("there is money");
        assert_eq!((first.nanos(), second.nanos()), (DOLLAR / 2, DOLLAR / 2));
        assert_eq!(budget.reserve(1), None);
        budget.release(first, Some(Dollars::from_nanos(DOLLAR / 10)));
        assert_eq!(budget.reserve(1), Some(Dollars::from_nanos(DOLLAR * 4 / 10)));
        budget.release(second, None);
        assert_eq!(budget.reserve(1), None, "a cost that is not known is all of it");
    }

    #[test]
    fn a_bound_that_was_too_small_is_not_tried_again() {
        let mut budget = SharedBudget::new(Dollars::from_nanos(DOLLAR), Dollars::default(), 10);
        let (first, second) = (budget.reserve(2), budget.reserve(1).expect("there is money"));
        budget.refuse(first.expect("there is money"));
        assert_eq!(budget.reserve(1), None);
        budget.release(second, Some(Dollars::default()));
        assert_eq!(budget.reserve(1), Some(Dollars::from_nanos(DOLLAR)));
    }

    #[test]
    fn too_little_for_one_request_starts_no_session() {
        let whole = Dollars::from_nanos(DOLLAR);
        let mut budget = SharedBudget::new(whole, Dollars::from_nanos(DOLLAR - DOLLAR / 10_000), 10);
        assert_eq!(budget.reserve(1), None);
    }
}
