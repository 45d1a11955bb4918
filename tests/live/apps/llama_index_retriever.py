"""A retriever of LlamaIndex."""

from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from shop import search


class ShopRetriever(BaseRetriever):
    """Searches the pages of the shop."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [
            NodeWithScore(
                node=TextNode(id_=page.id, text=page.text, metadata={"source": page.source}),
                score=score,
            )
            for page, score in search(query_bundle.query_str)
        ]
