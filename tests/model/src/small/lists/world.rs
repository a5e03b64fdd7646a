//! The world of shared lists, and what may happen in it.

use std::collections::{BTreeMap, BTreeSet};

use rackhand_core::watches::{
    named_list::{Answer, Extent},
    shared_list::{Answers, SharedList},
};

use super::Breakage;
use crate::time::NOW;

/// Nodes, each of a host that is asked about, and on a page of its own.
const COUNT: usize = 2;
/// How often pods are bound or leave, Nodes are deleted or register, or Leases are renewed.
const CHANGES: u8 = 3;
/// Steps in which every question is answered once nothing else happens: the list that runs, and the next one.
const BOUND: usize = 2 * (COUNT + 1);

/// What is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Subject {
    /// Pods: each Node has one, or none.
    Pods,
    /// Nodes with their Leases.
    Nodes,
    /// The Nodes that are asked about, selected by a label which usually is their name.
    Named,
}

impl Subject {
    fn extent(self) -> Extent {
        match self {
            Self::Pods | Self::Nodes => Extent::All,
            Self::Named => Extent::Named,
        }
    }
}

/// What may happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// A pod is bound to a Node, or leaves it; a Node registers, or is deleted.
    Change(usize),
    /// The Lease of a Node is renewed, or it is changed otherwise.
    Renew(usize),
    /// A Node gets the label of the other one, or its own again.
    Relabel(usize),
    /// A Node is asked about.
    Ask(usize),
    /// The next list begins: it shows this moment.
    Begin,
    /// The next page of the list arrives.
    Page,
    /// The list fails: it is refused, or its pages have expired.
    Fail,
    /// Who asked about a Node gives up.
    GiveUp(usize),
}

/// The first rule that was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wrong {
    /// What has been there all the time since the question counts as absent: a Node as drained, or as deleted.
    Absent,
    /// What has been absent since the question counts as there.
    There,
    /// A renewal of the Lease before the question is not seen.
    NotRenewed,
}

/// What is there of a Node: a pod, or itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Seen {
    is_there: bool,
    /// How often its Lease was renewed.
    renewals: u8,
    /// Whether its label is that of the other Node.
    has_other_label: bool,
}

/// A question that is not answered yet, and what has been true at some time since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Question {
    /// Whether the list that runs answers it. Otherwise it is the next one.
    of_running: bool,
    was_there: bool,
    was_absent: bool,
    /// Of the Lease, when it was asked.
    renewals: u8,
}

/// A list that has begun.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Running {
    /// What it was asked about.
    names: BTreeSet<String>,
    answers: Answers<Option<u8>>,
    /// What it shows.
    seen: [Seen; COUNT],
    /// Pages that have arrived.
    pages: usize,
}

/// The state of the world.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    pub(super) of: Subject,
    now: [Seen; COUNT],
    list: SharedList,
    running: Option<Running>,
    /// What the last complete list has shown, if that is remembered.
    remembered: Option<[Seen; COUNT]>,
    questions: [Option<Question>; COUNT],
    changes: u8,
    budget: u8,
    /// Whether one list has answered two questions.
    pub(super) shared: bool,
    /// Whether something was absent by an answer.
    pub(super) absent: bool,
    /// Whether a list did not tell of a Node, so that it is read by a call of its own.
    pub(super) unselected: bool,
    pub(super) wrong: Option<Wrong>,
}

fn name(node: usize) -> String {
    format!("n{node}")
}

impl World {
    pub(super) fn new(of: Subject, budget: u8) -> Self {
        let there = Seen {
            is_there: true,
            renewals: 0,
            has_other_label: false,
        };
        Self {
            of,
            now: [there; COUNT],
            list: SharedList::default(),
            running: None,
            remembered: None,
            questions: [None; COUNT],
            changes: CHANGES,
            budget,
            shared: false,
            absent: false,
            unselected: false,
            wrong: None,
        }
    }

    fn waits_for_next(&self) -> bool {
        let mut questions = self.questions.iter().flatten();
        questions.any(|question| !question.of_running)
    }

    pub(super) fn possible(&self) -> Vec<Action> {
        let mut all = Vec::new();
        if self.wrong.is_some() {
            return all;
        }
        for node in 0..COUNT {
            if self.changes > 0 {
                all.push(Action::Change(node));
                if self.of != Subject::Pods && self.now[node].is_there {
                    all.push(Action::Renew(node));
                }
                if self.of == Subject::Named {
                    all.push(Action::Relabel(node));
                }
            }
            all.push(match self.questions[node] {
                None => Action::Ask(node),
                Some(_) => Action::GiveUp(node),
            });
        }
        match self.running {
            Some(_) => {
                all.push(Action::Page);
                if self.budget > 0 {
                    all.push(Action::Fail);
                }
            }
            None if self.waits_for_next() => all.push(Action::Begin),
            None => {}
        }
        all
    }

    pub(super) fn act(&mut self, action: Action, breakage: Option<Breakage>) {
        match action {
            Action::Change(node) => {
                self.changes -= 1;
                let is_there = !self.now[node].is_there;
                self.now[node].is_there = is_there;
                if let Some(question) = &mut self.questions[node] {
                    question.was_there |= is_there;
                    question.was_absent |= !is_there;
                }
            }
            Action::Renew(node) => {
                self.changes -= 1;
                self.now[node].renewals += 1;
            }
            Action::Relabel(node) => {
                self.changes -= 1;
                self.now[node].has_other_label ^= true;
            }
            Action::Ask(node) => self.ask(node, breakage),
            Action::Begin => self.begin(),
            Action::Page => self.page(breakage),
            Action::Fail => self.fail(breakage),
            Action::GiveUp(node) => {
                self.questions[node] = None;
                // With the last of its callers, a list ends.
                let mut questions = self.questions.iter().flatten();
                if !questions.any(|question| question.of_running) {
                    self.running = None;
                }
            }
        }
    }

    fn ask(&mut self, node: usize, breakage: Option<Breakage>) {
        let is_joined = match breakage {
            Some(Breakage::EarlierListCounts | Breakage::UnaskedIsEmpty) => self.running.is_some(),
            _ => false,
        };
        let is_forgotten = breakage == Some(Breakage::QuestionForgotten) && self.running.is_some();
        if !is_joined && !is_forgotten {
            self.list.ask(&name(node));
        }
        if let Some(running) = &mut self.running
            && breakage == Some(Breakage::EarlierListCounts)
        {
            running.names.insert(name(node));
        }
        let Seen {
            is_there, renewals, ..
        } = self.now[node];
        self.questions[node] = Some(Question {
            of_running: is_joined,
            was_there: is_there,
            was_absent: !is_there,
            renewals,
        });
    }

    fn begin(&mut self) {
        let names = self.list.begin(NOW);
        self.running = Some(Running {
            answers: Answers::about(names.clone()),
            names,
            seen: self.now,
            pages: 0,
        });
        for question in self.questions.iter_mut().flatten() {
            question.of_running = true;
        }
    }

    fn page(&mut self, breakage: Option<Breakage>) {
        let Some(running) = &mut self.running else {
            return;
        };
        let node = running.pages;
        running.pages += 1;
        if breakage == Some(Breakage::EarlierListCounts) && node == 0 {
            running.answers = Answers::about(running.names.clone());
        }
        let Seen {
            is_there,
            renewals,
            has_other_label,
        } = running.seen[node];
        let label = match has_other_label {
            true => name(COUNT - 1 - node),
            false => name(node),
        };
        let is_shown = is_there
            && match self.of.extent() {
                Extent::All => true,
                Extent::Named => running.names.contains(&label),
            };
        let answers_for = match breakage {
            Some(Breakage::LabelIsName) => label,
            _ => name(node),
        };
        if let Some(of) = running.answers.of(&answers_for)
            && is_shown
        {
            *of = Some(renewals);
        }
        let is_last = running.pages == COUNT;
        running.answers.page((!is_last).then_some("next"));
        let Some(answers) = running.answers.clone().complete() else {
            return;
        };
        let seen = running.seen;
        self.running = None;
        self.list.complete(NOW);
        self.answer(&answers, breakage);
        let remembers = matches!(
            breakage,
            Some(Breakage::AbsenceRemembered | Breakage::LeaseRemembered)
        );
        self.remembered = remembers.then_some(seen);
    }

    fn fail(&mut self, breakage: Option<Breakage>) {
        self.budget -= 1;
        let Some(mut running) = self.running.take() else {
            return;
        };
        let counts = match breakage {
            Some(Breakage::FailedIsEmpty) => running.pages == 0,
            Some(Breakage::IncompleteIsAbsent) => running.pages > 0,
            _ => false,
        };
        if counts {
            running.answers.page(None);
        }
        if let Some(answers) = running.answers.complete() {
            self.answer(&answers, breakage);
        }
        // They read it by a call of their own.
        for question in &mut self.questions {
            *question = question.filter(|question| !question.of_running);
        }
    }

    fn answer(&mut self, answers: &BTreeMap<String, Option<u8>>, breakage: Option<Breakage>) {
        let mut answered = 0;
        for node in 0..COUNT {
            let Some(question) = self.questions[node].filter(|question| question.of_running) else {
                continue;
            };
            self.questions[node] = None;
            let mut found = match answers.get(&name(node)) {
                Some(found) => *found,
                None if breakage == Some(Breakage::UnaskedIsEmpty) => None,
                // It is an error, and asked again.
                None => continue,
            };
            if let Some(before) = self.remembered.map(|seen| seen[node]) {
                found = match breakage {
                    Some(Breakage::AbsenceRemembered) => found.filter(|_| before.is_there),
                    _ => found.map(|_| before.renewals),
                };
            }
            let extent = match breakage {
                Some(Breakage::UnselectedIsAbsent) => Extent::All,
                _ => self.of.extent(),
            };
            let wrong = match extent.answer(found) {
                Answer::Unknown => {
                    // It is read by a call of its own.
                    self.unselected = true;
                    continue;
                }
                Answer::Absent => (!question.was_absent).then_some(Wrong::Absent),
                Answer::Found(_) if !question.was_there => Some(Wrong::There),
                Answer::Found(renewals) => {
                    (renewals < question.renewals).then_some(Wrong::NotRenewed)
                }
            };
            answered += 1;
            self.wrong = self.wrong.or(wrong);
            self.absent |= found.is_none();
        }
        self.shared |= answered > 1;
    }

    /// L1: whether every question is answered once nothing else happens, and not only with an error.
    pub(super) fn ends(&self, breakage: Option<Breakage>) -> bool {
        let mut world = self.clone();
        for _ in 0..BOUND {
            let before = world.questions;
            match (&world.running, world.waits_for_next()) {
                (Some(running), _) => {
                    let asked = |node: usize| running.names.contains(&name(node));
                    let of_running = |node: usize| before[node].is_some_and(|q| q.of_running);
                    if (0..COUNT).any(|node| of_running(node) && !asked(node)) {
                        return false;
                    }
                    world.act(Action::Page, breakage);
                }
                (None, true) => world.act(Action::Begin, breakage),
                (None, false) => break,
            }
        }
        world.questions.iter().all(Option::is_none)
    }
}
