import torch
from hypothesis import given
from torch import Tensor

from slatewise.data.interactions import Interactions
from slatewise.model.config import ModelConfig
from slatewise.model.dynamics.gru import Gru, GruWeights
from slatewise.model.dynamics.linear import Linear, LinearWeights
from slatewise.model.steps import ClickSteps
from tests.model.ragged import histories, normals, ragged, random_interactions

ITEMS, D, HIDDEN = 12, 3, 4
LINEAR = LinearWeights(torch.tensor(0.7, dtype=torch.float64))
GRU = GruWeights(normals(1, 3 * HIDDEN, D), normals(2, 3 * HIDDEN, HIDDEN), normals(3, D, HIDDEN))
VECTORS = normals(4, ITEMS, D)
LINEAR_DYNAMICS = Linear(ModelConfig(dynamics="linear", dimensions=D))
GRU_DYNAMICS = Gru(ModelConfig(dimensions=D, hidden=HIDDEN))

Weights = LinearWeights | GruWeights


def profiles_of(batch: Interactions, initial: Tensor, weights: Weights) -> tuple[Tensor, Tensor]:
    """Profile before each interaction [N, D], and after the last one of each user [B, D]."""
    steps = ClickSteps.of(batch)
    clicked = VECTORS.index_select(0, steps.clicked)
    dynamics = LINEAR_DYNAMICS if isinstance(weights, LinearWeights) else GRU_DYNAMICS
    profiles = dynamics.profiles(steps, clicked, initial[steps.users], weights)
    return profiles[steps.state_of], profiles[steps.last_state]


def one_by_one(batch: Interactions, initial: Tensor, weights: Weights) -> tuple[Tensor, Tensor]:
    """Do the same user by user, interaction by interaction, straight from the equations."""
    before = [torch.empty(0, D, dtype=torch.float64)]
    after = [torch.empty(0, D, dtype=torch.float64)]
    for user, met in enumerate(histories(batch)):
        state = initial[user]
        for each in met:
            before.append(_profile(state, weights)[None])
            if each.click >= 0:
                state = _moved(state, VECTORS[each.click], weights)
        after.append(_profile(state, weights)[None])
    return torch.cat(before), torch.cat(after)


def _profile(state: Tensor, weights: Weights) -> Tensor:
    return state if isinstance(weights, LinearWeights) else weights.output @ state


def _moved(state: Tensor, item: Tensor, weights: Weights) -> Tensor:
    if isinstance(weights, LinearWeights):
        return weights.drift * state + (1 - weights.drift) * item
    w_ir, w_id, w_in = weights.from_item.split(HIDDEN)
    w_hr, w_hd, w_hn = weights.from_state.split(HIDDEN)
    reset = torch.sigmoid(w_ir @ item + w_hr @ state)
    update = torch.sigmoid(w_id @ item + w_hd @ state)
    new = torch.tanh(w_in @ item + reset * (w_hn @ state))
    return (1 - update) * new + update * state


def assert_near(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)


@given(batch=ragged)
def test_states_are_numbered_by_clicks_and_then_by_user(batch: Interactions) -> None:
    clicks = [[each.click for each in met if each.click >= 0] for met in histories(batch)]
    order = sorted(range(len(clicks)), key=lambda user: -len(clicks[user]))
    most = max(map(len, clicks), default=0)
    number: dict[tuple[int, int], int] = {}
    clicked = []
    for done in range(most + 1):
        for user in order:
            if len(clicks[user]) >= done:
                number[user, done] = len(number)
                clicked += [clicks[user][done - 1]] if done else []
    state_of = []
    for user, met in enumerate(histories(batch)):
        done = 0
        for each in met:
            state_of.append(number[user, done])
            done += each.click >= 0

    steps = ClickSteps.of(batch)

    assert steps.users.tolist() == order
    assert steps.active == [sum(len(c) > done for c in clicks) for done in range(most)]
    assert steps.clicked.tolist() == clicked
    assert steps.state_of.tolist() == state_of
    assert steps.last_state.tolist() == [number[u, len(c)] for u, c in enumerate(clicks)]


@given(batch=ragged)
def test_linear_profiles_are_those_of_one_user_after_the_other(batch: Interactions) -> None:
    initial = normals(5, batch.num_users, D)
    actual, expected = (f(batch, initial, LINEAR) for f in (profiles_of, one_by_one))
    assert_near(actual[0], expected[0])
    assert_near(actual[1], expected[1])


@given(batch=ragged)
def test_gru_profiles_are_those_of_one_user_after_the_other(batch: Interactions) -> None:
    initial = normals(5, batch.num_users, HIDDEN)
    actual, expected = (f(batch, initial, GRU) for f in (profiles_of, one_by_one))
    assert_near(actual[0], expected[0])
    assert_near(actual[1], expected[1])


def test_the_gru_is_that_of_torch_on_the_clicks_of_each_user() -> None:
    batch = random_interactions(3, users=20, longest_user=15)
    initial = normals(5, batch.num_users, HIDDEN)
    torch_gru = torch.nn.GRU(D, HIDDEN, bias=False, batch_first=True, dtype=torch.float64)
    with torch.no_grad():  # both stack reset, update and new gate in this order
        torch_gru.weight_ih_l0.copy_(GRU.from_item)
        torch_gru.weight_hh_l0.copy_(GRU.from_state)
        last = []
        for user, met in enumerate(histories(batch)):
            clicked = VECTORS[[each.click for each in met if each.click >= 0]]
            state = initial[user][None]
            if len(clicked):
                state = torch_gru(clicked[None], state[None])[1][0]
            last.append(state @ GRU.output.T)
    assert_near(profiles_of(batch, initial, GRU)[1], torch.cat(last))


def test_steps_have_the_gradients_of_finite_differences() -> None:
    def linear(state: Tensor, item: Tensor, drift: Tensor) -> Tensor:
        return LINEAR_DYNAMICS.step(state, item, LinearWeights(drift))

    def gru(state: Tensor, inputs: Tensor, from_state: Tensor) -> Tensor:
        return GRU_DYNAMICS.step(state, inputs, GRU._replace(from_state=from_state))

    drift = torch.tensor(0.3, dtype=torch.float64)
    moved = [normals(6, 2, D), normals(7, 2, D), drift]
    assert torch.autograd.gradcheck(linear, [x.requires_grad_() for x in moved])
    moved = [normals(6, 2, HIDDEN), normals(7, 2, 3 * HIDDEN), GRU.from_state.clone()]
    assert torch.autograd.gradcheck(gru, [x.requires_grad_() for x in moved])


def test_no_click_leaves_the_state_alone() -> None:
    batch = random_interactions(0, users=5, longest_user=9, click_share=0.0)
    initial = normals(5, 5, HIDDEN)
    steps = ClickSteps.of(batch)
    assert steps.active == []
    before, after = profiles_of(batch, initial, GRU)
    assert_near(after, initial @ GRU.output.T)
    user_of = torch.repeat_interleave(batch.user_offsets.diff())
    assert torch.equal(before, after[user_of])


def test_a_batch_of_nobody_has_no_states() -> None:
    batch = random_interactions(0, users=0)
    steps = ClickSteps.of(batch)
    assert steps.active == []
    for tensor in (steps.users, steps.clicked, steps.state_of, steps.last_state):
        assert len(tensor) == 0
    before, after = profiles_of(batch, torch.empty(0, HIDDEN, dtype=torch.float64), GRU)
    assert before.shape == after.shape == (0, D)
