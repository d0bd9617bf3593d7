from windlass.devstack.stack import Stack


def test_stack_is_up(stack: Stack) -> None:
    assert stack.kubeconfig.exists()
