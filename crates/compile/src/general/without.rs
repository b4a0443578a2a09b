//! Parts of the compiler that can be left out, by name: producers of candidates, rewrites of kernels, and
//! what searches among plans and orders. What is left out is done another way, so that every graph still
//! compiles, and the difference is what the part is worth.

use std::fmt;

/// A part that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Choice {
    /// Columns of contractions in whole access units of HBM.
    Padded,
    /// Padding of inputs and results that the host does.
    Host,
    /// Conversions before padding and windows, and where values are made.
    Early,
    /// Chains that read one another as one.
    Merge,
    /// Contractions of the same rows as one.
    Shared,
    /// Results of contractions as readers take them, columns first.
    Turned,
    /// Operands of contractions by strides instead of copies.
    Strided,
    /// Long sums in parts.
    Parts,
    /// Sums of a tile in blocks, one after the other.
    Blocks,
    /// Windows of few channels in whole flits.
    Runs,
    /// Depthwise sums through the contraction engine.
    Depthwise,
    /// What slices read alike comes from HBM once and is copied among them.
    Copies,
    /// Reductions with the chains around them, row by row.
    Groups,
    /// Contractions in tiles over PEs, where the explorer has a tactic.
    Tiled,
    /// The explorer's tactics, where a contraction has tiles.
    Explorer,
    /// Windows that contractions take where they lie.
    Windows,
    /// Results that contractions write inside of padding.
    Inside,
    /// Chains and reductions on the tiles and results of contractions.
    Epilogue,
    /// Values that stay in data memory between two contractions.
    Resident,
    /// PEs that work together on a tile.
    Fused,
    /// Tilings compared by what their transfers take.
    Refine,
    /// Tactics chosen together with the bridges between them.
    Bridges,
    /// Plans whose tiles are weighed as if weights were there, and the DMA engine scarce.
    Warm,
    /// PEs that wait for those that wrote what they read, not for all.
    Signals,
    /// List scheduling.
    Order,
    /// Several rules of list scheduling.
    Rules,
}

impl Choice {
    /// All parts, in the order in which they work.
    pub const ALL: [Choice; 26] = [
        Choice::Padded,
        Choice::Host,
        Choice::Early,
        Choice::Merge,
        Choice::Shared,
        Choice::Turned,
        Choice::Strided,
        Choice::Parts,
        Choice::Blocks,
        Choice::Runs,
        Choice::Depthwise,
        Choice::Copies,
        Choice::Groups,
        Choice::Tiled,
        Choice::Explorer,
        Choice::Windows,
        Choice::Inside,
        Choice::Epilogue,
        Choice::Resident,
        Choice::Fused,
        Choice::Refine,
        Choice::Bridges,
        Choice::Warm,
        Choice::Signals,
        Choice::Order,
        Choice::Rules,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Choice::Padded => "padded",
            Choice::Host => "host",
            Choice::Early => "early",
            Choice::Merge => "merge",
            Choice::Shared => "shared",
            Choice::Turned => "turned",
            Choice::Strided => "strided",
            Choice::Parts => "parts",
            Choice::Blocks => "blocks",
            Choice::Runs => "runs",
            Choice::Depthwise => "depthwise",
            Choice::Copies => "copies",
            Choice::Groups => "groups",
            Choice::Tiled => "tiled",
            Choice::Explorer => "explorer",
            Choice::Windows => "windows",
            Choice::Inside => "inside",
            Choice::Epilogue => "epilogue",
            Choice::Resident => "resident",
            Choice::Fused => "fused",
            Choice::Refine => "refine",
            Choice::Bridges => "bridges",
            Choice::Warm => "warm",
            Choice::Signals => "signals",
            Choice::Order => "order",
            Choice::Rules => "rules",
        }
    }

    /// What it does, in words.
    pub const fn words(self) -> &'static str {
        match self {
            Choice::Padded => "columns of contractions in whole access units",
            Choice::Host => "padding and order of inputs and results by the host",
            Choice::Early => "values narrow before padding, windows and HBM",
            Choice::Merge => "chains that read one another as one",
            Choice::Shared => "contractions of the same rows as one",
            Choice::Turned => "results that are computed columns first where readers take them so",
            Choice::Strided => "operands by strides instead of copies",
            Choice::Parts => "long sums in parts",
            Choice::Blocks => "sums of a tile in blocks that are brought one ahead",
            Choice::Runs => "windows of few channels in whole flits",
            Choice::Depthwise => "depthwise sums through the contraction engine",
            Choice::Copies => "one read of HBM and copies among slices that read alike",
            Choice::Groups => "reductions with the chains around them, row by row",
            Choice::Tiled => "contractions in tiles over PEs",
            Choice::Explorer => "the explorer's tactics",
            Choice::Windows => "windows that are taken where they lie",
            Choice::Inside => "results that are written inside of padding",
            Choice::Epilogue => "chains and reductions on the tiles of contractions",
            Choice::Resident => "values that stay in data memory between two contractions",
            Choice::Fused => "PEs that work together on a tile",
            Choice::Refine => "tilings compared by their transfers",
            Choice::Bridges => "tactics chosen together with bridges",
            Choice::Warm => "plans as if weights were there, and the engine scarce",
            Choice::Signals => "PEs that wait for who wrote what they read, not for all",
            Choice::Order => "list scheduling instead of program order",
            Choice::Rules => "several rules of list scheduling",
        }
    }

    /// The part of a name.
    pub fn named(name: &str) -> Option<Choice> {
        Choice::ALL.into_iter().find(|one| one.name() == name)
    }
}

/// Parts that are left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Without(u32);

impl Without {
    /// These parts are left out too.
    #[must_use]
    pub const fn and(self, choice: Choice) -> Without {
        Without(self.0 | 1 << choice as u32)
    }

    /// Whether a part is left out.
    pub const fn has(self, choice: Choice) -> bool {
        self.0 & 1 << choice as u32 != 0
    }

    /// Whether nothing is left out.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl From<Choice> for Without {
    fn from(choice: Choice) -> Without {
        Without::default().and(choice)
    }
}

impl fmt::Display for Without {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> =
            Choice::ALL.into_iter().filter(|one| self.has(*one)).map(Choice::name).collect();
        f.write_str(&names.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_their_parts() {
        for (at, one) in Choice::ALL.into_iter().enumerate() {
            assert_eq!(one as usize, at, "{}", one.name());
            assert_eq!(Choice::named(one.name()), Some(one));
            let others = Choice::ALL.into_iter().filter(|other| Without::from(one).has(*other)).count();
            assert_eq!((others, Without::from(one).to_string().as_str()), (1, one.name()));
        }
        let both = Without::from(Choice::Warm).and(Choice::Early);
        assert_eq!(both.to_string(), "early,warm");
        assert_eq!(Choice::named("cold"), None);
    }
}
