"""A RAG assistant of LangChain."""

from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough
from langchain_openai import ChatOpenAI
from shop import INSTRUCTIONS, MODEL, search


class ShopRetriever(BaseRetriever):
    """Searches the pages of the shop."""

    def _get_relevant_documents(self, query: str, *, run_manager: object) -> list[Document]:
        return [
            Document(id=page.id, page_content=page.text, metadata={"source": page.source})
            for page, _ in search(query)
        ]


def numbered(documents: list[Document]) -> str:
    """Return the documents as they go into the prompt."""
    return "\n".join(f"[{n}] {d.page_content}" for n, d in enumerate(documents, start=1))


def chain() -> object:
    """Return the assistant."""
    prompt = ChatPromptTemplate.from_messages(
        [("system", INSTRUCTIONS), ("human", "{context}\n\nQuestion: {question}")]
    )
    given = {"context": ShopRetriever() | numbered, "question": RunnablePassthrough()}
    return given | prompt | ChatOpenAI(model=MODEL) | StrOutputParser()
