//! Which contractions of a graph are multiplied in which type: a type for all, then rules by class or name.

use std::collections::BTreeSet;

use crate::types::SpelledTypes;

/// What the operands of a contraction become.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// Integers of eight bits, sums in i32.
    Int8,
    /// f8e4m3, sums in f32.
    Float8,
    /// Constants of four bits, which lie so in HBM, with computed values of eight; sums in i32.
    Weights4,
}

impl Format {
    /// Every one.
    pub const ALL: [Format; 3] = [Format::Int8, Format::Float8, Format::Weights4];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Int8 => "int8",
            Format::Float8 => "f8e4m3",
            Format::Weights4 => "w4a8",
        }
    }

    /// The one of a name; in rules the name may be that of the constants alone.
    fn find(name: &str, is_rule: bool) -> Option<Format> {
        let short = is_rule && ["w4", "int4"].contains(&name);
        Format::ALL.into_iter().find(|format| format.name() == name || short && *format == Format::Weights4)
    }

    /// What computed values become.
    pub(super) const fn of_computed(self) -> Format {
        match self {
            Format::Int8 | Format::Weights4 => Format::Int8,
            Format::Float8 => Format::Float8,
        }
    }
}

/// A class of contractions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// One operand is constant.
    Weights,
    /// One operand is constant, and the other is read through windows.
    Convolution,
    /// Both operands are computed, as scores of attention are.
    Attention,
    /// No contraction comes behind it.
    Head,
}

impl Class {
    /// Every one.
    pub const ALL: [Class; 4] = [Class::Weights, Class::Convolution, Class::Attention, Class::Head];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Class::Weights => "weights",
            Class::Convolution => "convolution",
            Class::Attention => "attention",
            Class::Head => "head",
        }
    }
}

/// Types that a graph is refused in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TypesError {
    /// A name that is no type of all contractions.
    #[error("a graph that takes arrays is not compiled in `{0}`")]
    Base(String),
    /// A name that is no type of a class.
    #[error("`{class}={name}`: contractions are not multiplied in `{name}`")]
    OfClass {
        /// The class or name of the rule.
        class: String,
        /// What was asked for.
        name: String,
    },
    /// Constants of four bits for a contraction that has no constant.
    #[error("`{class}=`: `{name}` multiplies two computed values, and only constants are of four bits")]
    NoConstant {
        /// The class or name of the rule.
        class: String,
        /// The contraction.
        name: String,
    },
    /// No contraction has the class or the name.
    #[error("`{class}=`: no contraction of the graph has this class or name")]
    Nothing {
        /// The class or name of the rule.
        class: String,
        /// Classes and names that contractions have.
        known: String,
    },
}

impl TypesError {
    /// What is allowed.
    pub fn allowed(&self) -> String {
        let formats = || Format::ALL.map(Format::name).join(", ");
        match self {
            TypesError::Base(_) => format!(
                "bf16; {} for contractions with constants; w8a8 for those of two computed values too; then \
                 CLASS=TYPE or NAME=TYPE, separated by commas",
                formats()
            ),
            TypesError::OfClass { .. } => format!("bf16, {}", formats()),
            TypesError::NoConstant { .. } => {
                "bf16, int8, f8e4m3 for contractions of two computed values".to_string()
            }
            TypesError::Nothing { known, .. } => known.clone(),
        }
    }
}

/// The type of a rule: bf16 leaves a contraction as it is.
type Chosen = Option<Format>;

/// Types of the contractions of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphTypes {
    /// As they were written.
    pub text: String,
    weights: Chosen,
    attention: Chosen,
    rules: Vec<(String, Chosen)>,
}

/// A contraction as rules see it.
pub(super) struct Ruled<'n> {
    /// The name of its result.
    pub(super) name: &'n str,
    /// Its classes.
    pub(super) classes: BTreeSet<Class>,
}

impl GraphTypes {
    /// Types as they are written: `int8`, `int8,head=bf16`, `f8e4m3,attention=f8e4m3,conv1*=int8`.
    ///
    /// # Errors
    /// Names of no type.
    pub fn parse(text: &str) -> Result<GraphTypes, TypesError> {
        let spelled = SpelledTypes::read(text);
        let (weights, attention) = match spelled.base.as_str() {
            "bf16" => (None, None),
            "w8a8" => (Some(Format::Int8), Some(Format::Int8)),
            name => match Format::find(name, false) {
                Some(format) => (Some(format), None),
                None => return Err(TypesError::Base(name.to_string())),
            },
        };
        let rule = |(class, name): &(String, String)| match (name.as_str(), Format::find(name, true)) {
            ("bf16", _) => Ok((class.clone(), None)),
            (_, Some(format)) => Ok((class.clone(), Some(format))),
            _ => Err(TypesError::OfClass { class: class.clone(), name: name.clone() }),
        };
        let rules = spelled.rules.iter().map(rule).collect::<Result<_, _>>()?;
        Ok(GraphTypes { text: text.to_string(), weights, attention, rules })
    }

    /// Whether contractions can be in another type than bf16.
    pub fn is_narrow(&self) -> bool {
        self.weights.is_some() || self.attention.is_some() || self.rules.iter().any(|rule| rule.1.is_some())
    }

    /// The type of a contraction: that of the last rule which is about it, else that of all.
    pub(super) fn format(&self, one: &Ruled<'_>) -> Chosen {
        let rule = self.rules.iter().rev().find(|(class, _)| is_about(class, one));
        let all = if one.classes.contains(&Class::Attention) { self.attention } else { self.weights };
        rule.map_or(all, |(_, format)| *format)
    }

    /// Refuses constants of four bits where there are none, and a rule that is about none of the
    /// contractions.
    pub(super) fn check(&self, all: &[Ruled<'_>]) -> Result<(), TypesError> {
        for (class, format) in &self.rules {
            let computed = |one: &&Ruled<'_>| one.classes.contains(&Class::Attention) && is_about(class, one);
            if let Some(one) = all.iter().find(computed).filter(|_| *format == Some(Format::Weights4)) {
                return Err(TypesError::NoConstant { class: class.clone(), name: one.name.to_string() });
            }
        }
        let idle = |rule: &&(String, Chosen)| !all.iter().any(|one| is_about(&rule.0, one));
        let Some((class, _)) = self.rules.iter().find(idle) else { return Ok(()) };
        let classes =
            Class::ALL.into_iter().filter(|class| all.iter().any(|one| one.classes.contains(class)));
        let classes: Vec<&str> = classes.map(Class::name).collect();
        let names: Vec<&str> = all.iter().map(|one| one.name).take(MOST_NAMES).collect();
        let more = if all.len() > MOST_NAMES { ", ..." } else { "" };
        let known = match (classes.is_empty(), names.join(", ")) {
            (true, _) => "no rule: the graph has no contraction".to_string(),
            (false, names) => {
                format!("classes {}; names {names}{more}, with * for any letters", classes.join(", "))
            }
        };
        Err(TypesError::Nothing { class: class.clone(), known })
    }
}

/// Names that a complaint lists, at most.
const MOST_NAMES: usize = 12;

fn is_about(class: &str, one: &Ruled<'_>) -> bool {
    one.classes.iter().any(|known| known.name() == class) || matches(class, one.name)
}

/// Whether a name is that of a pattern in which `*` stands for any letters.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut left) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let Some(last) = parts.next_back() else { return left.is_empty() };
    for part in parts {
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    left.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_letters() {
        let found = |pattern: &str| ["conv1", "conv10.b", "b", ""].map(|name| matches(pattern, name));
        assert_eq!(found("conv1"), [true, false, false, false]);
        assert_eq!(found("conv1*"), [true, true, false, false]);
        assert_eq!(found("*b"), [false, true, true, false]);
        assert_eq!(found("c*1*b"), [false, true, false, false]);
        assert_eq!(found("*"), [true; 4]);
        assert!(!matches("ab*ba", "aba"));
    }

    #[test]
    fn the_last_rule_about_a_contraction_decides() {
        let types = GraphTypes::parse("int8,head=bf16,out*=f8e4m3").expect("types");
        let of = |name: &'static str, classes: &[Class]| {
            types.format(&Ruled { name, classes: classes.iter().copied().collect() })
        };
        assert_eq!(of("a", &[Class::Weights]), Some(Format::Int8));
        assert_eq!(of("a", &[Class::Attention]), None);
        assert_eq!(of("a", &[Class::Weights, Class::Head]), None);
        assert_eq!(of("out1", &[Class::Weights, Class::Head]), Some(Format::Float8));
    }

    #[test]
    fn names_of_no_type_are_refused() {
        assert_eq!(GraphTypes::parse("w8a16"), Err(TypesError::Base("w8a16".to_string())));
        let wrong = GraphTypes::parse("int8,head=w8a8").unwrap_err();
        assert_eq!(wrong.to_string(), "`head=w8a8`: contractions are not multiplied in `w8a8`");
        assert_eq!(wrong.allowed(), "bf16, int8, f8e4m3, w4a8");
    }

    #[test]
    fn rules_name_four_bits_by_the_constants_too() {
        let rule = |text: &str| GraphTypes::parse(text).map(|types| types.rules[0].1);
        for text in ["int8,head=w4a8", "int8,head=w4", "head=int4"] {
            assert_eq!(rule(text), Ok(Some(Format::Weights4)), "{text}");
        }
        assert_eq!(GraphTypes::parse("w4"), Err(TypesError::Base("w4".to_string())));
    }

    #[test]
    fn only_constants_are_of_four_bits() {
        let ruled = |name: &'static str, class| Ruled { name, classes: BTreeSet::from([class]) };
        let all = [ruled("a", Class::Weights), ruled("s", Class::Attention)];
        let check = |text: &str| GraphTypes::parse(text).expect("types").check(&all);
        assert_eq!(check("w4a8,a=w4"), Ok(()));
        let refused =
            |class: &str| TypesError::NoConstant { class: class.to_string(), name: "s".to_string() };
        assert_eq!(check("int8,attention=w4a8"), Err(refused("attention")));
        assert_eq!(check("*=w4"), Err(refused("*")));
    }
}
