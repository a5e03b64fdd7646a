//! The world of shared lists, and what may happen in it.

use std::collections::BTreeSet;

use rackhand_core::watches::shared_list::SharedList;

use super::Breakage;
use crate::time::NOW;

/// Nodes, each of a host that is asked about.
const COUNT: usize = 2;
/// How often pods are bound, or leave.
const CHANGES: u8 = 3;
/// Steps in which every question is answered once nothing else happens.
const BOUND: usize = 4;

/// What may happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// A pod is bound to a Node, or leaves it.
    Change(usize),
    /// The pods of a Node are asked for.
    Ask(usize),
    /// The next list begins: it shows the pods of this moment.
    Begin,
    /// The answer to the list arrives.
    Answer,
    /// The list fails.
    Fail,
    /// Who asked about a Node gives up.
    GiveUp(usize),
}

/// The first rule that was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wrong {
    /// A Node counts as drained that has had a pod all the time since the question.
    Drained,
    /// A Node counts as not drained that has had no pod since.
    Bound,
}

/// A question that is not answered yet, and what has been true at some time since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Question {
    /// Whether the list that runs answers it. Otherwise it is the next one.
    of_running: bool,
    was_bound: bool,
    was_empty: bool,
}

/// A list that has begun.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Running {
    nodes: BTreeSet<String>,
    bound: [bool; COUNT],
}

/// The state of the world.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    bound: [bool; COUNT],
    list: SharedList,
    running: Option<Running>,
    questions: [Option<Question>; COUNT],
    changes: u8,
    budget: u8,
    /// Whether one list has answered two questions.
    pub(super) shared: bool,
    /// Whether a Node was drained by an answer.
    pub(super) drained: bool,
    pub(super) wrong: Option<Wrong>,
}

fn name(node: usize) -> String {
    format!("n{node}")
}

impl World {
    pub(super) fn new(budget: u8) -> Self {
        Self {
            bound: [true; COUNT],
            list: SharedList::default(),
            running: None,
            questions: [None; COUNT],
            changes: CHANGES,
            budget,
            shared: false,
            drained: false,
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
            }
            all.push(match self.questions[node] {
                None => Action::Ask(node),
                Some(_) => Action::GiveUp(node),
            });
        }
        match self.running {
            Some(_) => {
                all.push(Action::Answer);
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
                self.bound[node] = !self.bound[node];
                if let Some(question) = &mut self.questions[node] {
                    question.was_bound |= self.bound[node];
                    question.was_empty |= !self.bound[node];
                }
            }
            Action::Ask(node) => self.ask(node, breakage),
            Action::Begin => {
                let nodes = self.list.begin(NOW);
                self.running = Some(Running {
                    nodes,
                    bound: self.bound,
                });
                for question in self.questions.iter_mut().flatten() {
                    question.of_running = true;
                }
            }
            Action::Answer => {
                let Some(running) = self.running.take() else {
                    return;
                };
                self.list.complete(NOW);
                self.answer(&running, breakage);
            }
            Action::Fail => {
                self.budget -= 1;
                let Some(mut running) = self.running.take() else {
                    return;
                };
                if breakage == Some(Breakage::FailedIsEmpty) {
                    running.bound = [false; COUNT];
                    self.answer(&running, breakage);
                }
                // They ask again.
                for question in &mut self.questions {
                    *question = question.filter(|question| !question.of_running);
                }
            }
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
            running.nodes.insert(name(node));
        }
        self.questions[node] = Some(Question {
            of_running: is_joined,
            was_bound: self.bound[node],
            was_empty: !self.bound[node],
        });
    }

    fn answer(&mut self, running: &Running, breakage: Option<Breakage>) {
        let mut answered = 0;
        for node in 0..COUNT {
            let Some(question) = self.questions[node].filter(|question| question.of_running) else {
                continue;
            };
            self.questions[node] = None;
            let bound = match running.nodes.contains(&name(node)) {
                true => running.bound[node],
                false if breakage == Some(Breakage::UnaskedIsEmpty) => false,
                // It is an error, and asked again.
                false => continue,
            };
            answered += 1;
            let is_true = match bound {
                true => question.was_bound,
                false => question.was_empty,
            };
            if !is_true {
                let wrong = [Wrong::Drained, Wrong::Bound][usize::from(bound)];
                self.wrong.get_or_insert(wrong);
            }
            self.drained |= !bound;
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
                    let asked = |node: usize| running.nodes.contains(&name(node));
                    let of_running = |node: usize| before[node].is_some_and(|q| q.of_running);
                    if (0..COUNT).any(|node| of_running(node) && !asked(node)) {
                        return false;
                    }
                    world.act(Action::Answer, breakage);
                }
                (None, true) => world.act(Action::Begin, breakage),
                (None, false) => break,
            }
        }
        world.questions.iter().all(Option::is_none)
    }
}
