//! The two families of machines that can be described.

use std::fmt;

use serde::Serialize;

use crate::derived::{Derived, DerivedRow, rows};
use crate::keys::{SectionSpec, Sections};
use crate::neuron::{self, Neuron};
use crate::resolve::Figures;
use crate::tcp::{self, Tcp};

/// A family of machines: which sections it has and what can be derived from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Architecture {
    /// Tensor contraction processors.
    Tcp,
    /// AWS Neuron devices.
    Neuron,
}

/// A machine's figures as plain data.
#[derive(Clone, Debug, PartialEq)]
pub enum Machine {
    /// A tensor contraction processor.
    Tcp(Box<Tcp>),
    /// An AWS Neuron device.
    Neuron(Box<Neuron>),
}

/// Two figures that cannot both hold.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Conflict {
    /// `section.key` of the figure to blame.
    pub(crate) path: &'static str,
    /// What is wrong, with the numbers.
    pub(crate) message: String,
    /// What would hold.
    pub(crate) allowed: String,
}

impl Conflict {
    /// A conflict, unless the rule holds.
    pub(crate) fn unless(
        holds: bool,
        path: &'static str,
        message: String,
        allowed: &str,
    ) -> Option<Conflict> {
        (!holds).then(|| Conflict { path, message, allowed: allowed.to_owned() })
    }
}

impl Architecture {
    /// The words of a machine file.
    pub const NAMES: &'static [&'static str] = &["tcp", "neuron"];

    /// The architecture of that name.
    pub fn parse(name: &str) -> Option<Architecture> {
        match name {
            "tcp" => Some(Architecture::Tcp),
            "neuron" => Some(Architecture::Neuron),
            _ => None,
        }
    }

    /// The sections that a machine file of this architecture has.
    pub fn sections(self) -> &'static [SectionSpec] {
        match self {
            Architecture::Tcp => Tcp::SECTIONS,
            Architecture::Neuron => Neuron::SECTIONS,
        }
    }

    /// Names of the quantities derived from the figures.
    pub fn derived_names(self) -> Vec<&'static str> {
        match self {
            Architecture::Tcp => tcp::derived::ROWS.iter().map(|row: &DerivedRow<Tcp>| row.name).collect(),
            Architecture::Neuron => {
                neuron::derived::ROWS.iter().map(|row: &DerivedRow<Neuron>| row.name).collect()
            }
        }
    }

    /// The machine, if every figure is there.
    pub(crate) fn build(self, figures: &Figures) -> Option<Machine> {
        match self {
            Architecture::Tcp => Tcp::read(figures).map(|tcp| Machine::Tcp(Box::new(tcp))),
            Architecture::Neuron => Neuron::read(figures).map(|neuron| Machine::Neuron(Box::new(neuron))),
        }
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Architecture::Tcp => "tcp",
            Architecture::Neuron => "neuron",
        })
    }
}

impl Machine {
    /// The family that it belongs to.
    pub fn architecture(&self) -> Architecture {
        match self {
            Machine::Tcp(_) => Architecture::Tcp,
            Machine::Neuron(_) => Architecture::Neuron,
        }
    }

    /// The tensor contraction processor, if it is one.
    pub fn tcp(&self) -> Option<&Tcp> {
        if let Machine::Tcp(tcp) = self { Some(tcp) } else { None }
    }

    /// The Neuron device, if it is one.
    pub fn neuron(&self) -> Option<&Neuron> {
        if let Machine::Neuron(neuron) = self { Some(neuron) } else { None }
    }

    /// What follows from the figures. What a machine does not offer is left out.
    pub fn derived(&self) -> Vec<Derived> {
        match self {
            Machine::Tcp(tcp) => rows(tcp::derived::ROWS, tcp),
            Machine::Neuron(neuron) => rows(neuron::derived::ROWS, neuron),
        }
    }

    pub(crate) fn conflicts(&self) -> Vec<Conflict> {
        match self {
            Machine::Tcp(tcp) => tcp::conflicts(tcp),
            Machine::Neuron(neuron) => neuron::conflicts(neuron),
        }
    }
}
