"""One gradient step of everything: the policy's Q(λ) and the reward beside it."""

from functools import lru_cache

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Float, Int, UInt8

from discern.agent.networks import Imitator, InverseDynamics
from discern.agent.q_learning import goal_returns, td_loss
from discern.agent.relabel import measures, rows
from discern.agent.rewards import Reward, make_reward
from discern.agent.rewards.discern import DiscernReward, embed
from discern.agent.rewards.pairs import PairReward
from discern.config import Config, LearnerConfig, of_programs
from discern.envs.base import EnvSpec
from discern.types import Array, Batch, Frames, LearnerState, Metrics, Params, PRNGKey


class Learner:
    """The mathematics of one agent, fixed by its config; every method is a pure function."""

    def __init__(self, config: Config, spec: EnvSpec):
        self.config = config.learner
        self.imitator = Imitator(config.network, spec.image_shape, spec.actions, config.actor.horizon)
        self.inverse_dynamics = InverseDynamics(config.network, spec.actions)
        self.ends = config.relabel.ends
        self.reward: Reward = make_reward(config, spec.dimensions)
        self.random_erasing = config.reward.random_erasing
        self.optimiser = make_optimiser(config.learner, self.reward)

    def init(self, key: PRNGKey, goal_images: UInt8[Array, "C H W 3"]) -> LearnerState:
        """Fresh parameters; what is measured rather than trained comes from the first goal buffer."""
        imitator_key, reward_key = jax.random.split(key)
        params = self.imitator.calibrate(self.imitator.init(imitator_key), goal_images)
        reward = self.reward.init(reward_key, self.imitator.config.features, self.imitator.image_shape)
        params["reward"] = self.reward.calibrate(reward, goal_images)
        if self.config.inverse_dynamics:
            h = jnp.zeros((1, self.imitator.config.features))
            params["inverse_dynamics"] = self.inverse_dynamics.init(jax.random.fold_in(key, 1), h, h)["params"]
        target = jax.tree.map(jnp.copy, policy_part(params)) if self.config.target_interval else None
        ema = jax.tree.map(jnp.copy, params) if self.config.ema_decay else None
        return LearnerState(params, target, ema, self.optimiser.init(params), jnp.zeros((), jnp.int32))

    def update(
        self, state: LearnerState, batch: Batch, rate: Float[Array, ""] | float = 1.0
    ) -> tuple[LearnerState, Metrics]:
        """A new state after one gradient step on a relabelled batch, at this share of the learning rate."""
        gradient, metrics = self.gradient(state, batch)
        return self.apply(state, gradient, rate), metrics | {"gradient_norm": optax.tree.norm(gradient)}

    def gradient(self, state: LearnerState, batch: Batch) -> tuple[Params, Metrics]:
        """The gradient of the loss, and the loss's metrics."""
        gradient, metrics = jax.grad(self.loss, has_aux=True)(state.params, state.target_params, batch)
        return gradient, metrics

    def apply(self, state: LearnerState, gradient: Params, rate: Float[Array, ""] | float = 1.0) -> LearnerState:
        """A new state after one step along the gradient."""
        steps, optimiser = self.optimiser.update(gradient, state.optimiser, state.params)
        params = optax.apply_updates(state.params, optax.tree.scale(rate, steps))
        updates = state.updates + 1
        target = state.target_params
        if target is not None:
            copy_now = updates % (self.config.target_interval or 1) == 0
            target = jax.tree.map(lambda new, old: jnp.where(copy_now, new, old), policy_part(params), target)
        ema = state.ema
        if ema is not None:
            ema = optax.incremental_update(params, ema, 1.0 - self.config.ema_decay)
        return LearnerState(params, target, ema, optimiser, updates)

    def loss(self, params: Params, target_params: Params, batch: Batch) -> tuple[Float[Array, ""], Metrics]:
        """The TD loss of every goal of every trajectory, averaged over both, plus the reward's own loss."""
        images = rows(batch)
        features = self.imitator.features(params, images)
        q_values = self.q_values(params, features, batch)
        bootstrap = q_values
        if target_params is not None:
            target_features = self.imitator.features(target_params, images)
            bootstrap = self.q_values(target_params, target_features, batch)
        decoys = self.decoys(params, batch)
        reward_loss, reward_metrics = self.reward_loss(params, features, images, decoys, batch)
        rewards = self.rewards(params["reward"], features, images, decoys, batch)
        policy_loss = self.policy_loss(q_values, bootstrap, rewards, batch)
        metrics = {"td_loss": policy_loss, "reward_mean": rewards.mean(), "q_mean": q_values.mean(), **reward_metrics}
        if not self.config.inverse_dynamics:
            return policy_loss + reward_loss, metrics
        inverse_dynamics_loss = self.inverse_dynamics_loss(params, features, batch)
        loss = policy_loss + reward_loss + self.config.inverse_dynamics * inverse_dynamics_loss
        return loss, metrics | {"inverse_dynamics_loss": inverse_dynamics_loss}

    def inverse_dynamics_loss(self, params: Params, features: Float[Array, "R F"], batch: Batch) -> Float[Array, ""]:
        """−log of the chance that h gives to the action taken between two frames, averaged."""
        observations = observed(features, batch)
        logits = self.inverse_dynamics.apply(
            {"params": params["inverse_dynamics"]}, observations[:, :-1], observations[:, 1:]
        )
        losses: Array = optax.softmax_cross_entropy_with_integer_labels(logits, batch.trajectories.actions)
        return losses.mean()

    def embed(self, params: Params, features: Float[Array, "*frames F"]) -> Float[Array, "*frames embedding"]:
        """What the reward makes of h; h itself where it has no embedding."""
        layer = params["reward"].get("encoder", params["reward"])
        return embed(layer, features) if "kernel" in layer else features

    def q_values(self, params: Params, features: Float[Array, "R F"], batch: Batch) -> Float[Array, "B G T A"]:
        """Q of every step under every goal, from the features of `rows(batch)`."""
        observations = observed(features, batch)[:, :-1]
        end = batch.end if self.ends else None
        return self.imitator.unroll(params, observations, features[batch.goal_row], batch.trajectories.actions, end)

    def policy_loss(
        self,
        q_values: Float[Array, "B G T A"],
        bootstrap: Float[Array, "B G T A"],
        rewards: Float[Array, "B G"],
        batch: Batch,
    ) -> Float[Array, ""]:
        """½ Σ_t δ_t², averaged over trajectories and goals."""
        returns = jax.vmap(jax.vmap(goal_returns, (0, 0, 0, None, None)), (0, 0, 0, None, None))(
            rewards, bootstrap.max(-1), batch.end, self.config.discount, self.config.lambda_
        )
        losses = jax.vmap(jax.vmap(td_loss, (0, None, 0, 0)))(q_values, batch.trajectories.actions, returns, batch.end)
        return losses.mean()

    def decoys(self, params: Params, batch: Batch) -> Frames:
        """The batch's decoys [B, K] as a reward sees them."""
        return Frames(self.imitator.features(jax.lax.stop_gradient(params), batch.decoys), batch.decoys)

    def rewards(
        self,
        params: Params,
        features: Float[Array, "R F"],
        images: UInt8[Array, "R H W 3"],
        decoys: Frames,
        batch: Batch,
    ) -> Float[Array, "B G"]:
        """1 for a hindsight goal, the reward's word for any other."""
        table = Frames(features, images, measures(batch))
        achieved, goal = pick(table, end_rows(batch)), pick(table, batch.goal_row)
        for_each_goal = jax.tree.map(lambda x: x[:, None], decoys)
        earned = self.reward.reward(params, achieved, goal, for_each_goal)
        return jax.lax.stop_gradient(jnp.where(batch.is_hindsight, self.reward.hindsight, earned))

    def reward_loss(
        self,
        params: Params,
        features: Float[Array, "R F"],
        images: UInt8[Array, "R H W 3"],
        decoys: Frames,
        batch: Batch,
    ) -> tuple[Float[Array, ""], Metrics]:
        """The teacher's loss on the paper's draw of goals; h is held fixed (sec. 4) except by teachers of pairs."""
        if isinstance(self.reward, PairReward):
            return self.reward.pair_loss(params["reward"], observed(features, batch), jax.random.key(batch.seed))
        table = Frames(jax.lax.stop_gradient(features), images)
        achieved, goal = pick(table, batch.achieved_row), pick(table, batch.teacher_row)
        loss, metrics = self.reward.loss(params["reward"], achieved, goal, decoys, batch.teacher_is_hindsight)
        if not self.random_erasing or not isinstance(self.reward, DiscernReward):
            return loss, metrics
        background, keys = batch.decoys.mean((0, 1)).astype(jnp.uint8), jax.random.split(jax.random.key(batch.seed), 3)

        def partly(shown: Frames, key: PRNGKey) -> Frames:
            pixels = random_erasing(key, shown.pixels, background, self.random_erasing)
            return Frames(self.imitator.features(jax.lax.stop_gradient(params), pixels), pixels)

        achieved, goal, decoys = map(partly, (achieved, goal, decoys), keys)
        count, is_hindsight = metrics["decoys"], batch.teacher_is_hindsight
        hidden, _ = self.reward.loss(params["reward"], achieved, goal, decoys, is_hindsight, count)
        return 0.5 * (loss + hidden), metrics


@lru_cache(maxsize=16)
def _shared(config: Config, spec: EnvSpec) -> Learner:
    return Learner(config, spec)


def shared_learner(config: Config, spec: EnvSpec) -> Learner:
    """The same learner for all runs whose programs are the same, so that a process compiles them once."""
    return _shared(of_programs(config), spec)


def random_erasing(
    key: PRNGKey, images: UInt8[Array, "*frames H W 3"], background: UInt8[Array, "H W 3"], most: float
) -> UInt8[Array, "*frames H W 3"]:
    """Replaces a random rectangle of each image, up to `most` of a side, with the background's."""
    half_key, centre_key = jax.random.split(key)
    half = jax.random.uniform(half_key, (*images.shape[:-3], 2), maxval=most / 2)
    centre = jax.random.uniform(centre_key, half.shape)

    def within(axis: int) -> Array:
        return jnp.abs(jnp.linspace(0.0, 1.0, background.shape[axis]) - centre[..., axis, None]) < half[..., axis, None]

    return jnp.where((within(0)[..., :, None] & within(1)[..., None, :])[..., None], background, images)


def pick(table: Frames, row: Int[Array, "..."]) -> Frames:
    """Rows of a table of frames."""
    picked: Frames = jax.tree.map(lambda x: x[row], table)
    return picked


def observed(features: Float[Array, "R F"], batch: Batch) -> Float[Array, "B T+1 F"]:
    """The trajectories' own rows."""
    count, frames = batch.trajectories.observations.shape[:2]
    return features[: count * frames].reshape((count, frames, -1))


def end_rows(batch: Batch) -> Int[Array, "B G"]:
    """Rows of the frames that are to show each goal."""
    count, frames = batch.trajectories.observations.shape[:2]
    return (jnp.arange(count) * frames)[:, None] + batch.end


def annealed(spent: float, anneal: float) -> float:
    """The share of the learning rate that is left when this share of the budget is spent."""
    return min(1.0, max(0.0, (1.0 - spent) / anneal)) if anneal else 1.0


def policy_part(params: Params) -> Params:
    """The imitator's own parameters."""
    return {"torso": params["torso"], "core": params["core"]}


def make_optimiser(config: LearnerConfig, reward: Reward) -> optax.GradientTransformation:
    """The config's optimiser behind a clip of the gradient's global norm; a reward may bring its own."""
    if config.optimiser == "adam":
        rule = optax.adam(config.learning_rate, eps=config.epsilon)
    else:
        rule = optax.rmsprop(config.learning_rate, decay=0.99, eps=config.epsilon)
    clipped = optax.chain(optax.clip_by_global_norm(config.clip), rule)
    if reward.optimiser is None:
        return clipped
    rules = {"policy": clipped, "reward": reward.optimiser}
    return optax.multi_transform(rules, lambda params: {part: part if part in rules else "policy" for part in params})
