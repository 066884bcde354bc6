"""Arguments that a runnable gives its model, however it is composed."""

from langchain_core.runnables import RunnableLambda, RunnableParallel

from emend.agents.providers.tool_binding import bound_arguments

BOUND = RunnableLambda(lambda text: text).bind(stop=["x"])


def test_arguments_are_found_inside_sequences_and_parallel_steps():
    plain = RunnableLambda(lambda text: text)
    assert bound_arguments(BOUND) == {"stop": ["x"]}
    assert bound_arguments(plain | BOUND) == {"stop": ["x"]}
    assert bound_arguments(RunnableParallel(a=plain, b=BOUND)) == {"stop": ["x"]}
    assert bound_arguments(plain) == {}
