//! What the programs of a choice take, and how a goal ranks it: the explorer's goals
//! (`tilewright_explore::goal`) for whole models.

use tilewright_base::invariant::{Exact, OrBroken};
use tilewright_compile::Compiled;
use tilewright_explore::Goal;
use tilewright_explore::goal::milliwatts;
use tilewright_machine::tcp::Tcp;

use crate::timing::{longest, simulated};

/// How much more counts by which a program is worse than by the rule.
const WORSE: u128 = 9;

/// What a program takes for one token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenCost {
    /// Thousandths of cycles.
    pub millicycles: u64,
    /// Energy, standing power of the chips included.
    pub energy_fj: u64,
    /// Average power of the whole run.
    pub milliwatts: u64,
}

/// What both programs take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramCosts {
    /// A token behind the longest context.
    pub decode: TokenCost,
    /// A token of the longest prompt.
    pub prefill: TokenCost,
}

/// How a choice ranks; less is better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChoiceScore {
    /// Power above what the goal allows, of the program that takes more.
    pub excess_milliwatts: u64,
    /// Millionths of what the rule's programs take, both counted alike.
    pub millionths: u64,
}

impl ProgramCosts {
    /// Simulates both programs; `None` if they do not run.
    pub fn of(machine: &Tcp, compiled: &Compiled) -> Option<ProgramCosts> {
        let most = compiled.plan.options.context.min(compiled.kernels.positions);
        let prompt = compiled.most_tokens().min(most).max(1);
        let of = |name: &str, tokens: u64| {
            let outline = compiled.outlines.iter().find(|outline| outline.name == name)?;
            let outcome = simulated(machine, compiled.program(name)?, &longest(compiled, outline)).ok()?;
            let sum: u128 = outcome.energy_fj.iter().sum();
            let energy_fj = u64::try_from(sum).or_broken("the energy of a run fits 64 bits");
            Some(TokenCost {
                millicycles: outcome.cycles.exact_mul(1000) / tokens,
                energy_fj: energy_fj / tokens,
                milliwatts: milliwatts(machine.chip.clock_hz, outcome.cycles, energy_fj),
            })
        };
        Some(ProgramCosts { decode: of("decode", 1)?, prefill: of("prefill", prompt)? })
    }

    /// The power of the program that takes more.
    pub fn milliwatts(&self) -> u64 {
        self.decode.milliwatts.max(self.prefill.milliwatts)
    }

    /// How it ranks beside the rule; what is worse than the rule counts more, so that no program pays for
    /// another.
    pub fn score(&self, rule: &ProgramCosts, goal: Goal) -> ChoiceScore {
        let part = |own: TokenCost, rule: TokenCost| {
            let value = |taken: TokenCost| goal.value(taken.millicycles, taken.energy_fj);
            let millionths = millionths(value(own), value(rule));
            millionths.saturating_add(millionths.saturating_sub(1_000_000).saturating_mul(WORSE))
        };
        let both = part(self.decode, rule.decode).saturating_add(part(self.prefill, rule.prefill));
        let excess_milliwatts = match goal {
            Goal::TimeBelow(most) => self.milliwatts().saturating_sub(most),
            _ => 0,
        };
        ChoiceScore { excess_milliwatts, millionths: u64::try_from(both).unwrap_or(u64::MAX) }
    }
}

/// A part of a whole in millionths; products of both may be too long for it, and lose their last digits then.
fn millionths(part: u128, whole: u128) -> u128 {
    let most = part.max(whole) >> 100;
    let shift = 128 - most.leading_zeros();
    (part >> shift).saturating_mul(1_000_000) / (whole >> shift).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(millicycles: u64, energy_fj: u64, milliwatts: u64) -> TokenCost {
        TokenCost { millicycles, energy_fj, milliwatts }
    }

    #[test]
    fn goals_rank_the_same_choices_differently() {
        let both = |each: TokenCost| ProgramCosts { decode: each, prefill: each };
        let rule = both(taken(1000, 1000, 1000));
        let fast = both(taken(900, 1100, 1222));
        let frugal = both(taken(1100, 900, 818));
        let better = |one: &ProgramCosts, goal| one.score(&rule, goal) < rule.score(&rule, goal);
        assert!(better(&fast, Goal::Time) && !better(&frugal, Goal::Time));
        assert!(!better(&fast, Goal::Energy) && better(&frugal, Goal::Energy));
        // Below 0.9 W only the slow one may be taken, whatever it takes longer.
        assert!(better(&frugal, Goal::TimeBelow(900)));
        assert_eq!(frugal.score(&rule, Goal::TimeBelow(900)).excess_milliwatts, 0);
        assert_eq!(rule.score(&rule, Goal::TimeBelow(900)).excess_milliwatts, 100);
        assert!(better(&fast, Goal::TimeBelow(1300)));
    }

    #[test]
    fn no_program_pays_for_another() {
        let rule = ProgramCosts { decode: taken(1000, 1, 1), prefill: taken(1000, 1, 1) };
        let traded = ProgramCosts { decode: taken(800, 1, 1), prefill: taken(1100, 1, 1) };
        assert!(traded.score(&rule, Goal::Time) > rule.score(&rule, Goal::Time));
    }

    #[test]
    fn long_products_keep_their_ratio() {
        let (long, longer) =
            (u128::from(u64::MAX) * u128::from(u64::MAX) / 2, u128::from(u64::MAX - 1).pow(2));
        assert_eq!(millionths(longer, longer), 1_000_000);
        assert_eq!(millionths(long, longer), 500_000);
        assert_eq!(millionths(3, 4), 750_000);
        assert_eq!(millionths(3, 0), 3_000_000);
    }
}
