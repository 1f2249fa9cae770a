//! A decision, together with the objects that could not be decided.
//!
//! A decider never fails as a whole: it returns the decided value, a [`Problem`] for each object that it could not decide, and the names of
//! objects whose existing state must stay unchanged. So one bad object neither stops the rest nor withdraws something that works.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;

use crate::problem::{ObjectId, Problem};

/// A decided value, the problems of the decision, and the objects to leave unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outcome<D> {
    /// The decision.
    pub value: D,
    /// The problems, object by object.
    pub problems: Vec<Problem>,
    /// Objects that could not be decided. Their existing state stays unchanged.
    pub keep: BTreeSet<ObjectId>,
}

impl<D> Outcome<D> {
    /// A decision without problems.
    pub fn new(value: D) -> Self {
        Self { value, problems: Vec::new(), keep: BTreeSet::new() }
    }

    /// Reports a problem of an object that was decided all the same.
    pub fn report(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    /// Reports an object that could not be decided. Its existing state stays unchanged.
    pub fn undecided(&mut self, problem: Problem) {
        self.keep.insert(problem.object.clone());
        self.problems.push(problem);
    }

    /// Takes over the problems and kept objects of a part, and returns the part's value.
    pub fn absorb<P>(&mut self, part: Outcome<P>) -> P {
        self.problems.extend(part.problems);
        self.keep.extend(part.keep);
        part.value
    }

    /// The same outcome with another value.
    pub fn map<E>(self, f: impl FnOnce(D) -> E) -> Outcome<E> {
        Outcome { value: f(self.value), problems: self.problems, keep: self.keep }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Class;

    #[test]
    fn an_undecided_part_is_kept_and_the_rest_stands() {
        let bad =
            Problem::error(ObjectId::new("port", "p2"), Class::Refused, "no-network", "it has no network");
        let mut part = Outcome::new(vec!["p1"]);
        part.undecided(bad.clone());
        let mut whole = Outcome::<Vec<&str>>::default();
        let rows = whole.absorb(part);
        whole.value.extend(rows);
        let whole = whole.map(|rows| rows.len());
        assert_eq!(whole.value, 1);
        assert_eq!(whole.problems, std::slice::from_ref(&bad));
        assert!(whole.keep.contains(&bad.object));
    }
}
