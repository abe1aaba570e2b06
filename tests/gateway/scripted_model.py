"""A chat model that follows a script and writes down what it was offered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field

Step = Callable[[list[BaseMessage]], AIMessage]


def says(text: str) -> Step:
    """The step that answers."""
    return lambda _messages: AIMessage(content=text)


def calls(name: str, **arguments: Any) -> Step:
    """The step that calls one tool."""

    def step(messages: list[BaseMessage]) -> AIMessage:
        identity = f"call_{len(messages)}"
        return AIMessage(content="", tool_calls=[{"name": name, "args": arguments, "id": identity}])

    return step


class ScriptedModel(BaseChatModel):
    """Takes the next step whenever it is asked.

    `offered` lists, for each request, the names of the tools that were bound; `seen` the
    messages. Bound copies share both with the original.
    """

    script: list[Step]
    offered: list[list[str]] = Field(default_factory=list)
    seen: list[list[BaseMessage]] = Field(default_factory=list)
    position: list[int] = Field(default_factory=lambda: [0])
    bound: list[str] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(
        self, tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool], **_: Any
    ) -> ScriptedModel:
        """A copy with these tools that writes into the same lists."""
        names = [convert_to_openai_tool(tool)["function"]["name"] for tool in tools]
        copy = ScriptedModel.model_construct(**{**self.__dict__, "bound": names})
        copy.__pydantic_private__ = self.__pydantic_private__
        return copy

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        self.offered.append(list(self.bound))
        self.seen.append(list(messages))
        step = self.script[self.position[0]]
        self.position[0] += 1
        return ChatResult(generations=[ChatGeneration(message=step(list(messages)))])
